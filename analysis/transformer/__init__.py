"""What a transformer computes, on plain tensors: attention, LayerNorm, MLP, a whole encoder, small models."""

from analysis.core.attention_layer import (
    AttentionLayer as AttentionLayer,
    Mask as Mask,
    Norm as Norm,
    QueryKeyNorm as QueryKeyNorm,
)
from analysis.core.positions import Alibi as Alibi, RelativeBuckets as RelativeBuckets, Rotary as Rotary
from analysis.core.weights import EncoderLayer as EncoderLayer, MlpWeights as MlpWeights
from analysis.transformer.attention import (
    attend as attend,
    compute_scores as compute_scores,
    mask_future as mask_future,
    project as project,
    queries_and_keys as queries_and_keys,
    softmax as softmax,
    visible_keys as visible_keys,
)
from analysis.transformer.attention_only import composition_scores as composition_scores, k_composition as k_composition
from analysis.transformer.encoder import (
    Switches as Switches,
    encode as encode,
    random_layers as random_layers,
    run_layer as run_layer,
)
from analysis.transformer.induction import required_sharpness as required_sharpness
from analysis.transformer.induction_scores import (
    copying_score as copying_score,
    induction_score as induction_score,
    previous_token_score as previous_token_score,
)
from analysis.transformer.layernorm import (
    apply_norm as apply_norm,
    centre as centre,
    jacobian as jacobian,
    sigma as sigma,
)
from analysis.transformer.layernorm_scale import inverse_sigma as inverse_sigma
from analysis.transformer.mlp import activation_mask as activation_mask, apply_mlp as apply_mlp
from analysis.transformer.position_scores import alibi_slopes as alibi_slopes, bucket_scores as bucket_scores
from analysis.transformer.positional_encodings import (
    rotation as rotation,
    sinusoidal_positions as sinusoidal_positions,
    toeplitz_defect as toeplitz_defect,
)
from analysis.transformer.rotary import rotate as rotate
from analysis.transformer.rotary_scaling import (
    interpolate_positions as interpolate_positions,
    ntk_aware as ntk_aware,
    rotary_frequencies as rotary_frequencies,
    yarn as yarn,
)
