"""The algorithm: prototypes that grow until every cell holds one class.

Reading order, beside the paper:

1. `round`: what a round does to the prototypes (the equations of the paper), with `budget` if there
   is not room for all children, and `coinciding_means` for cells such as an XOR;
2. `paper`: the rounds, and when they stop; `grow`: the whole fit, of which they are the first step;
3. `termination` and `missing_classes`: why a fit ends, and why every class has a prototype;
4. `run` and `cells`: the state after a round; `rules`: the parameters; `rows`: how growth sees the
   data, as passes over all rows;
5. beyond the paper: `best`, with `samples`, based on `margins`; `refine`, with `robust_field` and
   `descent`; `start_metric`, `first_metric` and `metric_descent`, which learn a metric, and
   `metric_choice`, whether to learn one; `prune`;
   `auto` with `held_out`, which choose the number of clusters; `registry`, the names of growth
   rules and refinements;
6. further: `identical_rows` with different labels, `earlier_rows` that a continued fit does not see
   again, `trail` and `waypoints`, the models with fewer clusters on the way.
"""
