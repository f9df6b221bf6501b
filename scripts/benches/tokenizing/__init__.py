"""Parts of `scripts/bench tokenize`.

Reading order: workload, engines, scenarios (what is timed, in a process of its own), edges (single
runs, memory), targets, report.
"""
