#include "textflag.h"

// Blocks of sixteen rows, see blocks.go.

// LOOK adds to a the entries of 16 rows for two groups of components: that of the low halves
// of the codes at R9 by the table in low, that of the high ones by the table in high.
#define LOOK(low, high, a) \
	VLD1.P 16(R9), [V20.B16]; \
	VAND   V31.B16, V20.B16, V21.B16; \
	VUSHR  $4, V20.B16, V22.B16; \
	VTBL   V21.B16, [low.B16], V21.B16; \
	VTBL   V22.B16, [high.B16], V22.B16; \
	VADD   V22.B16, V21.B16, a.B16

// func sumBlockNEON(table *uint8, grains int, block unsafe.Pointer, sums *[16]uint32)
TEXT ·sumBlockNEON(SB), NOSPLIT, $0-32
	MOVD  table+0(FP), R8
	MOVD  grains+8(FP), R10
	MOVD  block+16(FP), R9
	MOVD  sums+24(FP), R11
	VMOVI $15, V31.B16
	VEOR  V0.B16, V0.B16, V0.B16
	VEOR  V1.B16, V1.B16, V1.B16

grain:
	CBZ    R10, done
	VLD1.P 64(R8), [V4.B16, V5.B16, V6.B16, V7.B16]
	VLD1.P 64(R8), [V16.B16, V17.B16, V18.B16, V19.B16]
	LOOK(V4, V16, V24)
	LOOK(V5, V17, V25)
	LOOK(V6, V18, V26)
	LOOK(V7, V19, V27)

	// Four entries fit a byte together.
	VADD    V25.B16, V24.B16, V24.B16
	VADD    V27.B16, V26.B16, V26.B16
	VUADDW  V24.B8, V0.H8, V0.H8
	VUADDW2 V24.B16, V1.H8, V1.H8
	VUADDW  V26.B8, V0.H8, V0.H8
	VUADDW2 V26.B16, V1.H8, V1.H8
	SUB     $1, R10
	B       grain

done:
	// Even bytes are those of the first eight rows.
	VUZP1  V1.H8, V0.H8, V2.H8
	VUZP2  V1.H8, V0.H8, V3.H8
	VUXTL  V2.H4, V4.S4
	VUXTL2 V2.H8, V5.S4
	VUXTL  V3.H4, V6.S4
	VUXTL2 V3.H8, V7.S4
	VST1   [V4.S4, V5.S4, V6.S4, V7.S4], (R11)
	RET
