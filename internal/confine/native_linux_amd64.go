package confine

// native is the ABI of the programs this binary starts.
var native = &abiX86_64
