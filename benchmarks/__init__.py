"""Speed figures: ``python -m benchmarks`` measures, prints, and writes ``results/bench.json``."""
