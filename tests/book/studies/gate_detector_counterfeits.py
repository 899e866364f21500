"""What would turn what the page on the gate detector states: the smallest change of its measurement."""

from analysis.maps import gates


def more_columns(alarms):
    """Let columns be seen in six of a hundred maps more."""
    alarms = alarms.copy()
    alarms[..., gates.PATTERNS.index("directional")] += 0.06
    return alarms


FINDINGS = {"lines_are_as_rare_as_promised": {"calibration.alarms": more_columns}}
