#!/usr/bin/env bash
# The Python of this version, for example 3.12, if this machine has it; else $PYTHON or python3, and a line that says so.
set -euo pipefail

for each in "python$1" "${PYENV_ROOT:-$HOME/.pyenv}"/versions/"$1".*/bin/"python$1"; do
    if "$each" -c 'import ensurepip, venv' 2>/dev/null; then
        printf '%s\n' "$each"
        exit
    fi
done
other=${PYTHON:-python3}
printf 'There is no Python %s with venv; its part is taken by %s.\n' "$1" "$("$other" --version)" >&2
printf '%s\n' "$other"
