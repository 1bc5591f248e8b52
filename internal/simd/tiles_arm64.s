#include "textflag.h"

// Kernels of tiles share these registers:
//
//	R0 table   R1 components   R2 addresses of tiles   R3 tiles left   R5 masks   R6 keys
//	R7 bits of the tile, then its biases   R8 cursor in the table   R9 components left
//	R11 mask of the tile
//	V0 to V3 sums of eight rows each   V20 15   V21 step   V22 base   V23 reach
//	V25 lean   V24 floor   V26 1, 2, 4, 8

// Four components of 32 rows, whose bits and table are in registers.
#define LOOK_UP(bits, table) \
	VAND    V20.B16, bits.B16, V8.B16; \
	VUSHR   $4, bits.B16, V9.B16; \
	VTBL    V8.B16, [table.B16], V8.B16; \
	VTBL    V9.B16, [table.B16], V9.B16; \
	VUADDW  V8.B8, V0.H8, V0.H8; \
	VUADDW2 V8.B16, V1.H8, V1.H8; \
	VUADDW  V9.B8, V2.H8, V2.H8; \
	VUADDW2 V9.B16, V3.H8, V3.H8

// Adds the bits of the four keys in V8 that reach the floor to the mask.
#define REACH(shift) \
	WORD  $0x6e38e508; /* FCMGE V8.4S, V8.4S, V24.4S */ \
	VAND  V26.B16, V8.B16, V8.B16; \
	VADDV V8.S4, V8; \
	VMOV  V8.S[0], R10; \
	ORR   R10<<shift, R11, R11

// The keys of the four rows whose sums are in V8.
#define KEYS(shift) \
	VLD1.P 16(R7), [V10.S4]; \
	VLD1.P 16(R13), [V9.S4]; \
	VLD1.P 16(R14), [V11.S4]; \
	VLD1.P 16(R15), [V12.S4]; \
	WORD   $0x6e21d908; /* UCVTF V8.4S, V8.4S */ \
	WORD   $0x6e35dd08; /* FMUL V8.4S, V8.4S, V21.4S */ \
	WORD   $0x4e36d508; /* FADD V8.4S, V8.4S, V22.4S */ \
	WORD   $0x6e29dd08; /* FMUL V8.4S, V8.4S, V9.4S */ \
	WORD   $0x4e2ad508; /* FADD V8.4S, V8.4S, V10.4S */ \
	WORD   $0x6e37dd6b; /* FMUL V11.4S, V11.4S, V23.4S */ \
	WORD   $0x4e2bd508; /* FADD V8.4S, V8.4S, V11.4S */ \
	WORD   $0x6e39dd8c; /* FMUL V12.4S, V12.4S, V25.4S */ \
	WORD   $0x4e2cd508; /* FADD V8.4S, V8.4S, V12.4S */ \
	VST1.P [V8.S4], 16(R6); \
	REACH(shift)

#define EIGHT_KEYS(sums, shift, next) \
	VUXTL  sums.H4, V8.S4; \
	KEYS(shift); \
	VUXTL2 sums.H8, V8.S4; \
	KEYS(next)

// V26 = 1, 2, 4, 8
#define WEIGHTS() \
	MOVD $0x0000000200000001, R10; \
	VMOV R10, V26.D[0]; \
	MOVD $0x0000000800000004, R10; \
	VMOV R10, V26.D[1]

// func scanTilesNEON(table *uint8, dim int, tiles *unsafe.Pointer, n int, bar *TileBar, masks *uint32, out *float32, step float32)
TEXT ·scanTilesNEON(SB), NOSPLIT, $0-60
	MOVD    table+0(FP), R0
	MOVD    dim+8(FP), R1
	MOVD    tiles+16(FP), R2
	MOVD    n+24(FP), R3
	MOVD    bar+32(FP), R4
	MOVD    masks+40(FP), R5
	MOVD    out+48(FP), R6
	MOVWU   step+56(FP), R10
	VDUP    R10, V21.S4
	VLD1R.P 4(R4), [V22.S4]
	VLD1R.P 4(R4), [V23.S4]
	VLD1R.P 4(R4), [V25.S4]
	VLD1R   (R4), [V24.S4]
	VMOVI   $15, V20.B16
	WEIGHTS()

tile:
	MOVD.P 8(R2), R7
	MOVD   R0, R8
	MOVD   R1, R9
	VEOR   V0.B16, V0.B16, V0.B16
	VEOR   V1.B16, V1.B16, V1.B16
	VEOR   V2.B16, V2.B16, V2.B16
	VEOR   V3.B16, V3.B16, V3.B16

chunk: // 16 components
	VLD1.P 64(R7), [V4.B16, V5.B16, V6.B16, V7.B16]
	VLD1.P 64(R8), [V16.B16, V17.B16, V18.B16, V19.B16]
	LOOK_UP(V4, V16)
	LOOK_UP(V5, V17)
	LOOK_UP(V6, V18)
	LOOK_UP(V7, V19)
	SUBS   $16, R9, R9
	BGT    chunk

	ADD  $128, R7, R13
	ADD  $256, R7, R14
	ADD  $384, R7, R15
	MOVD ZR, R11
	EIGHT_KEYS(V0, 0, 4)
	EIGHT_KEYS(V1, 8, 12)
	EIGHT_KEYS(V2, 16, 20)
	EIGHT_KEYS(V3, 24, 28)
	MOVW.P R11, 4(R5)
	SUBS   $1, R3, R3
	BNE    tile
	RET

// func atLeastNEON(keys *float32, floor float32, masks *uint32, n int)
TEXT ·atLeastNEON(SB), NOSPLIT, $0-32
	MOVD  keys+0(FP), R6
	MOVWU floor+8(FP), R10
	MOVD  masks+16(FP), R5
	MOVD  n+24(FP), R3
	VDUP  R10, V24.S4
	WEIGHTS()

tile:
	MOVD   ZR, R11
	VLD1.P 16(R6), [V8.S4]
	REACH(0)
	VLD1.P 16(R6), [V8.S4]
	REACH(4)
	VLD1.P 16(R6), [V8.S4]
	REACH(8)
	VLD1.P 16(R6), [V8.S4]
	REACH(12)
	VLD1.P 16(R6), [V8.S4]
	REACH(16)
	VLD1.P 16(R6), [V8.S4]
	REACH(20)
	VLD1.P 16(R6), [V8.S4]
	REACH(24)
	VLD1.P 16(R6), [V8.S4]
	REACH(28)
	MOVW.P R11, 4(R5)
	SUBS   $1, R3, R3
	BNE    tile
	RET
