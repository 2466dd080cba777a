#!/usr/bin/env bash
# What needs more than Python and Java: the site in a browser, notebooks, data of others, servers, and tables. Says in one
# line for each that it passed, or what is skipped because its packages, the browser, a server or the data cannot be had.
# Fails, with all that was printed, if a test does. Arguments are pytest's.
set -uo pipefail
cd "$(dirname "$0")/.."
args="-q -rs $*"

beside() { # name, the file that stands for its packages, the task
    local printed
    if ! make --no-print-directory "$2" >/dev/null 2>&1; then
        echo "$1: skipped, its packages cannot be had"
    elif ! printed=$(make --no-print-directory "$3" ARGS="$args" 2>&1); then
        printf '%s\n' "$printed"
        exit 1
    elif grep -q '^SKIPPED' <<<"$printed"; then
        echo "$1: skipped, $(sed -n 's/^SKIPPED [^:]*:[0-9]*: //p' <<<"$printed" | head -n 1)"
    else
        echo "$1: $(tail -n 1 <<<"$printed")"
    fi
}

servers() {
    local server
    for server in "$@"; do beside "$server" .venv/.stamp-servers "test-$server"; done
}

# Packages come first and one after the other, as what follows shares environments.
for packages in .venv/.stamp-docs .venv/.stamp-notebooks .venv/.stamp-servers .venv-4.1/.stamp .venv-4.2/.stamp; do
    make --no-print-directory "$packages" >/dev/null 2>&1 || true
done
beside site .venv/.stamp-docs test-site

# Each of these waits for a server or a process half of its time, so two of them run at once. The two with a Kafka broker
# are in one row, as they share its build, and those of tables come late in the other: Maven does not share its folder.
(
    servers kafka fraud pipelines connect
) &
beside_it=$!
(
    beside notebooks .venv/.stamp-notebooks test-notebooks
    beside real .venv/.stamp-dev test-real
    servers postgres serving
    beside delta .venv-4.2/.stamp test-delta
    beside iceberg .venv-4.1/.stamp test-iceberg
)
failed=$?
wait "$beside_it" || failed=$?
exit "$failed"
