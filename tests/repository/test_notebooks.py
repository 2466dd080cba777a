"""The notebooks run, from their first cell to the last, and show pictures, plans, tables and plots.

Left out unless selected with `-m notebooks` (`make test-notebooks`).
"""

import json
from pathlib import Path

import pytest
from real.packages import TRAFFIC

pytestmark = pytest.mark.notebooks
FOLDER = Path(__file__).resolve().parents[2] / "docs" / "notebooks"
NOTEBOOKS = sorted(path.name for path in FOLDER.glob("*.ipynb"))
SHOWN = {
    "aircraft.ipynb": {"image/svg+xml": 1, "text/html": 2, "image/png": 3},
    "first_windows.ipynb": {"image/svg+xml": 4, "text/html": 1},
    "fraud_features.ipynb": {"image/svg+xml": 1, "text/html": 1},
    "tuning.ipynb": {"text/html": 3, "image/png": 1},
}
NEEDED = {"aircraft.ipynb": (TRAFFIC, "traffic/data/samples/collections/quickstart.json.gz")}
"""What is downloaded before a notebook runs; its test is skipped where it cannot be had."""
SECONDS = 300


def test_every_notebook_is_here():
    assert NOTEBOOKS == sorted(SHOWN)


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_notebook_runs(name):
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    if name in NEEDED:
        package, member = NEEDED[name]
        package.read(member)
    notebook = nbformat.read(FOLDER / name, as_version=4)
    nbclient.NotebookClient(notebook, timeout=SECONDS, resources={"metadata": {"path": str(FOLDER)}}).execute()
    shown = [kind for cell in notebook.cells for output in cell.get("outputs", ()) for kind in output.get("data", ())]
    assert {kind: shown.count(kind) for kind in SHOWN[name]} == SHOWN[name]


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_notebook_is_kept_without_what_it_showed(name):
    cells = json.loads((FOLDER / name).read_text(encoding="utf-8"))["cells"]
    assert not any(cell.get("outputs") or cell.get("execution_count") for cell in cells)
