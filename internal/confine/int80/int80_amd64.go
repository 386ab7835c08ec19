package int80

// Call makes a system call of the 32-bit x86 ABI from 64-bit code and returns
// the result or the negative error number. A kernel without 32-bit emulation
// kills the process with SIGSEGV.
func Call(number uint32) int32
