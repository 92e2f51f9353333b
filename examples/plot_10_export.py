"""
Save, load and use elsewhere
============================

A model file holds numbers and text, no code, and gives the same predictions and further fits to
the last bit. For other languages there are ONNX, JSON and CSV. Here the digits leave as JSON, and
twenty lines of NumPy, as they might be in any language, classify with it.
"""

import json
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import dkmeans
from dkmeans.files import write

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, stratify=y, random_state=0)
model = dkmeans.DiscriminativeKMeans(40, refine="margin", metric="euclidean").fit(X_train, y_train)

with tempfile.TemporaryDirectory() as folder:
    model.save(Path(folder, "digits.dkm"))
    again = dkmeans.load(Path(folder, "digits.dkm"))
    for name in ("digits.json", "digits.csv", "digits.onnx"):
        write(model, Path(folder, name))
    sizes = {path.name: path.stat().st_size for path in sorted(Path(folder).iterdir())}
    exported = json.loads(Path(folder, "digits.json").read_text())

print(
    "the same bits:", again.predict_proba(X_test).tobytes() == model.predict_proba(X_test).tobytes()
)
for name, size in sizes.items():
    print(f"{name:12s}{size / 1000:7.1f} kB")

# %%
# All that a prediction takes: the nearest prototype, the first of equals.

centers = np.array([prototype["center"] for prototype in exported["prototypes"]])
labels = np.array([prototype["class"] for prototype in exported["prototypes"]])
squares = ((X_test[:, None, :] - centers) ** 2).sum(axis=2)
nearest = squares.argmin(axis=1)
print("labels agree:", (labels[nearest] == model.predict(X_test)).all())

# %%
# New rows above, the prototypes that classified them below:

figure, axes = plt.subplots(2, 10, figsize=(11, 2.9), layout="constrained")
for row, (above, below) in enumerate(axes.T):
    above.imshow(X_test[row].reshape(8, 8), cmap="gray_r")
    below.imshow(centers[nearest[row]].reshape(8, 8), cmap="gray_r")
    below.set_xlabel(f"class {labels[nearest[row]]}")
    for ax in (above, below):
        ax.set(xticks=[], yticks=[])
axes[0, 0].set_ylabel("row")
axes[1, 0].set_ylabel("prototype")
plt.show()
