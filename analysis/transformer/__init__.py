"""What a transformer computes, on plain tensors: attention, LayerNorm, MLP, a whole encoder, small models."""
