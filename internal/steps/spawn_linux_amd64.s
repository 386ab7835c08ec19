#include "textflag.h"

// func spawn(args *cloneArgs, p *play) (pid uintptr)
TEXT ·spawn(SB), NOSPLIT, $0-24
	MOVQ args+0(FP), DI
	MOVQ p+8(FP), R12
	MOVQ $64, SI // of cloneArgs
	MOVQ $435, AX // clone3
	SYSCALL
	CMPQ AX, $0
	JEQ child
	MOVQ AX, pid+16(FP)
	RET

child:
	// On a stack of its own, above whose end is room for the argument.
	MOVQ R12, 0(SP)
	// Not by its name: a performance may spawn another, and the linker would count their
	// stacks as one.
	LEAQ ·perform(SB), AX
	CALL AX
	INT $3
