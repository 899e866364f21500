"""The survey's reading of sources, on sources made for it."""

from book.studies.weighted_mean.experiments import judge

QKV = "self.query = nn.Linear(d, d); self.key = nn.Linear(d, d); self.value = nn.Linear(d, d)"
HEAD = "class {}(nn.Module):\n    def __init__(self, d):\n        {}\n"


def verdicts(*classes):
    return dict(judge("\n".join(HEAD.format(name, body) for name, body in classes)))


def test_own_beside_none():
    assert verdicts(("AAttention", f"{QKV}; self.o_proj = nn.Linear(d, d)")) == {"AAttention": "own"}
    assert verdicts(("ASelfAttention", QKV)) == {"ASelfAttention": "none"}
    assert verdicts(("ASelfAttention", QKV), ("ASelfOutput", "self.dense = nn.Linear(d, d)")) == {
        "ASelfAttention": "beside"
    }
    assert verdicts(("ASelfAttention", QKV), ("ABlock", "self.a = ASelfAttention(d); self.proj = nn.Linear(d, d)")) == {
        "ASelfAttention": "beside"
    }
    assert verdicts(("ASelfAttention", QKV), ("ABlock", "self.a = ASelfAttention(d); self.proj = nn.Dropout(d)")) == {
        "ASelfAttention": "none"
    }


def test_what_is_no_attention_with_values_is_left_out():
    assert verdicts(("AMap", QKV)) == {}
    assert verdicts(("AMapAttention", "self.q_proj = nn.Linear(d, d); self.k_proj = nn.Linear(d, d)")) == {}


def test_fused_projections_count_and_are_no_output():
    assert verdicts(("AAttention", "self.c_attn = Conv1D(3 * d, d)")) == {"AAttention": "none"}
    assert verdicts(("AAttention", "self.qkv_out = nn.Linear(d, 3 * d)")) == {"AAttention": "none"}


def test_a_projection_counts_only_in_a_class_that_holds_the_attention():
    projects = "self.proj = nn.Linear(d, d)"
    attention = ("ASelfAttention", QKV)
    assert verdicts(attention, ("AHead", projects)) == {"ASelfAttention": "none"}
    twice = f"self.a = ASelfAttention(d)\n        self.name = 'ASelfAttention'\n        {projects}"
    assert verdicts(attention, ("ABlock", twice)) == {"ASelfAttention": "beside"}
    assert verdicts(attention, ("ABlock", f"self.a = AnASelfAttention(d)\n        {projects}")) == {
        "ASelfAttention": "none"
    }
