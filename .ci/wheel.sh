#!/usr/bin/env bash
# What users get: builds the sdist and, from it, the wheel, installs both into fresh environments, and runs the quickstart
# from the wheel with and without Spark, outside the clone. $PYTHON (else python3) has the module `build`.
set -euo pipefail

clone=$(cd "$(dirname "$0")/.." && pwd)
python=$(command -v -- "${PYTHON:-python3}")
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
cd "$place"

say() { printf 'wheel: %s\n' "$*"; }

"$python" -m build --outdir dist "$clone" >build.log 2>&1 || { cat build.log >&2; exit 1; }
wheel=$(echo dist/*.whl) sdist=$(echo dist/*.tar.gz)
say "built $(basename "$wheel") and $(basename "$sdist")"
tar -tzf "$sdist" >files.txt
for file in examples/fraud/README.md servers/kafka.py mkdocs.yml tests/conftest.py; do
    grep --quiet "/$file\$" files.txt || { say "the sdist has no $file" >&2; exit 1; }
done

"$python" -m venv venv
# Nothing of the clone, and of what its Makefile exports, may help.
unset PYTHONPATH PYSPARK_PYTHON PYSPARK_DRIVER_PYTHON
pip() { venv/bin/python -m pip --quiet --disable-pip-version-check "$@"; }

pip install "$sdist"
venv/bin/python -c 'import slicing, combinators, sys; assert "pyspark" not in sys.modules, "import slicing loads pyspark"'
pip uninstall --yes spark-slicing
say "the sdist installs"

pip install "$wheel"
venv/bin/slicing --help >help.txt
logs=$(venv/bin/python -c 'import slicing; print(slicing.__path__[0])')/spark/log4j2.properties
[[ -f $logs ]] || { say "the wheel has no $logs" >&2; exit 1; }
printf 'ts,user,amount\n2024-05-01T12:00:00Z,ada,1\n' >payments.csv
arguments=(payments.csv --time ts --keys user --size "1 hour" --aggregate "spent=sum(amount)")
if venv/bin/slicing "${arguments[@]}" 2>error.txt; then say "ran without pyspark" >&2; exit 1; fi
grep --quiet "pip install 'spark-slicing\[spark\]'" error.txt || { cat error.txt >&2; exit 1; }
say "without [spark]: imports, prints its help, and says what is missing"

pip install "$wheel[spark]"
export PATH="$place/venv/bin:$PATH" # as after `activate`
slicing "${arguments[@]}" >table.txt 2>error.txt || { cat error.txt >&2; exit 1; }
grep --quiet "^ada  .*  *1$" table.txt || { cat table.txt >&2; exit 1; }
python -P "$clone/.ci/quickstart.py" "$clone/docs/quickstart.md" 2>error.txt || { cat error.txt >&2; exit 1; }
say "with [spark]: the command line and the quickstart's stream run"
