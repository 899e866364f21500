"""The vocabulary: axes, the weights of a layer, checks of arguments, the device, files."""
