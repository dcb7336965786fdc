"""Data mixing laws and what they need: functions from arrays and numbers to arrays and numbers.

Nothing in here reads a path, an argument or a config; the scripts one folder up do. Only `model` and
`training` import torch.
"""
