"""Pictures of models and of how they grew. matplotlib is imported when something is drawn."""
