package confine

// native is the ABI of the programs this binary starts.
var native = &abiAArch64
