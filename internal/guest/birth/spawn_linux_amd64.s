#include "textflag.h"

// func spawn(args *cloneArgs, program *call, failed *uintptr) (pid uintptr)
//
// The child has our memory and our stack. It touches neither but to note an error: all it
// does is to go through the program, of which the last call is an exec.
TEXT ·spawn(SB), NOSPLIT, $0-32
	MOVQ args+0(FP), DI
	MOVQ program+8(FP), R12
	MOVQ failed+16(FP), R13
	MOVQ $88, SI // of cloneArgs
	MOVQ $435, AX // clone3
	SYSCALL
	CMPQ AX, $0
	JEQ child
	MOVQ AX, pid+24(FP)
	RET

child:
	MOVQ 0(R12), AX
	MOVQ 8(R12), DI
	MOVQ 16(R12), SI
	MOVQ 24(R12), DX
	MOVQ 32(R12), R10
	MOVQ 40(R12), R8
	XORL R9, R9
	SYSCALL
	CMPQ AX, $0
	JLT failure
	ADDQ $48, R12
	JMP child

failure:
	NEGQ AX
	MOVQ AX, (R13)

end:
	MOVQ $1, DI
	MOVQ $231, AX // exit_group
	SYSCALL
	JMP end
