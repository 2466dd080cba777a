#!/usr/bin/env bash
# Check what pip cannot install: Python >= 3.11 with venv ($PYTHON, else python3) and Java >= 17 ($JAVA_HOME, else PATH).
# Says what was found and how to get the rest; silent when all is there.
set -uo pipefail

python=${PYTHON:-python3}
failed=0

missing() { # what is required, what was found, then remedies
    failed=1
    printf 'Required: %s. Found: %s.\n' "$1" "$2" >&2
    shift 2
    printf '  %s\n' "$@" >&2
}

python_remedies=(
    "Debian/Ubuntu:  apt-get install python3.11 python3.11-venv"
    "macOS:          brew install python@3.11"
    "Another one:    make PYTHON=/path/to/python3.11 ..."
)
if ! python_path=$(command -v -- "$python"); then
    missing "Python >= 3.11" "no command \`$python\`" "${python_remedies[@]}"
elif ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
    missing "Python >= 3.11" "$("$python" --version 2>&1 | head -n 1) ($python_path)" "${python_remedies[@]}"
elif ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
    missing "Python's venv module" "$("$python" --version 2>&1) ($python_path) without it" \
        "Debian/Ubuntu:  apt-get install python3-venv"
fi

java_remedies=(
    "Debian/Ubuntu:  apt-get install openjdk-17-jre-headless"
    "macOS:          brew install openjdk@17, then export JAVA_HOME=\"\$(brew --prefix openjdk@17)\""
    "Another one:    export JAVA_HOME=/path/to/jdk"
)
if [ -n "${JAVA_HOME:-}" ]; then
    java=$JAVA_HOME/bin/java where="JAVA_HOME=$JAVA_HOME"
else
    java=java where=PATH
fi
if ! command -v -- "$java" >/dev/null; then
    missing "Java >= 17" "no java in $where" "${java_remedies[@]}"
elif ! printed=$("$java" -version 2>&1); then # macOS has a stub that only prints advice
    missing "Java >= 17" "a java in $where that does not run" "${java_remedies[@]}"
else
    version=$(sed -n 's/.* version "\([^"]*\)".*/\1/p' <<<"$printed" | head -n 1)
    major=${version#1.} # Java 8 calls itself 1.8
    major=${major%%[!0-9]*}
    if [ "${major:-0}" -lt 17 ]; then
        missing "Java >= 17" "Java ${version:-of unknown version} in $where" "${java_remedies[@]}"
    fi
fi

exit "$failed"
