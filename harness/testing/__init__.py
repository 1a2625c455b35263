"""What tests of this package and of plugins build on: contracts, fakes that pass them, simulated worlds."""
