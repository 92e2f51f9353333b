"""The explorer: a page on which a person sees classes and prototypes, and puts things right."""
