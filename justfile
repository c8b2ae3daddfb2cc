# Each recipe is a script of the same name; without just, call the script.

# List the recipes.
default:
    @just --list

# Build bin/podsteadd and bin/podstead, statically linked.
build:
    scripts/build

# Debian packages for amd64 and arm64; `just package test` tries one out.
package *args:
    scripts/package {{args}}

# Lint, then every test under the race detector. Arguments go to go test.
test *args:
    scripts/test {{args}}

# Many machines and all that can befall them, simulated: -n SEEDS, -seed SEED -v.
simulate *args:
    scripts/simulate {{args}}

# Kill the agent and Podman at every step of a pod's life: -n KILLS.
crash *args:
    scripts/crash {{args}}

# The seed's pod end to end on a private Podman. --keep leaves it running.
demo *args:
    scripts/demo {{args}}

# Format, lint, import rules, generated files: what CI runs before the tests.
check:
    scripts/check

# Ratios against raw Podman calls and podman kube play.
bench *args:
    scripts/bench {{args}}

# Format the Go files.
fmt:
    scripts/fmt

# Make the generated files anew.
generate:
    scripts/generate
