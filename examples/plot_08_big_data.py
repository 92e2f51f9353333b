"""
A table that is read in blocks
==============================

Tables on disk are fitted without loading them: name the file or folder and the column of the
labels. Rows are read block by block, within ``memory_mb``, and what comes out is the same to the
last bit as if all had been in memory.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pyarrow as pa
from pyarrow import parquet as pq
from sklearn.datasets import make_moons

from dkmeans import DiscriminativeKMeans
from dkmeans.plots import CellsDisplay

# %%
# A folder of Parquet files, with text as labels:

folder = tempfile.TemporaryDirectory()
parts = [make_moons(20_000, noise=0.15, random_state=seed) for seed in range(4)]
names = np.array(["upper", "lower"])
for number, (X, y) in enumerate(parts):
    table = pa.table({"x": X[:, 0], "y": X[:, 1], "moon": names[y]})
    pq.write_table(table, Path(folder.name) / f"part-{number}.parquet")

# %%
# ``growth="paper"`` reads the data least often: once a round.

on_disk = DiscriminativeKMeans.paper(16, memory_mb=4).fit(Path(folder.name), "moon")
X, y = (np.concatenate(column) for column in zip(*parts, strict=True))
in_memory = DiscriminativeKMeans.paper(16).fit(X, names[y])
print("the same bits:", on_disk.cluster_centers_.tobytes() == in_memory.cluster_centers_.tobytes())
print(
    on_disk.history_.to_pandas()[["round", "clusters", "impurity", "moved"]].to_string(index=False)
)
folder.cleanup()

# %%
# The model is a model like any other; here with a few of the 80,000 rows.

figure, ax = plt.subplots(figsize=(8, 5), layout="constrained")
CellsDisplay.from_estimator(on_disk, X[::100], names[y[::100]], ax=ax)
plt.show()
