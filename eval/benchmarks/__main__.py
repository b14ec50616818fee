"""Run every benchmark: ``python -m eval.benchmarks``."""

from eval.benchmarks import throughput

throughput.main()
