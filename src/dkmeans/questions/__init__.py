"""Questions asked of a fitted model: functions of a `Fitted` and of checked rows.

Nothing here imports the fit, so that a model can be used without it.
"""
