"""Engines: what computes runs, in this process, in worker processes, or on a Ray cluster."""
