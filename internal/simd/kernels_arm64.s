#include "textflag.h"

// Every kernel scores one query against n rows, and shares these registers:
//
//	R0 query   R1 dim   R2 pages   R3 shift   R8 1<<shift - 1   R4 stride
//	R5 ids     R6 n     R7 out     R19 bytes of a row that are read
//	R9  row being scored   R10 row being prefetched
//	R11 cursor in the query   R12 cursor in the row   R13 components left
//
// As on amd64, rows are prefetched some places ahead of the one being scored.
// Instructions that the assembler doesn't know are written as words, each with
// its mnemonic.

#define ARGS() \
	MOVD q+0(FP), R0; \
	MOVD dim+8(FP), R1; \
	MOVD pages+16(FP), R2; \
	MOVD shift+24(FP), R3; \
	MOVD stride+32(FP), R4; \
	MOVD ids+40(FP), R5; \
	MOVD n+48(FP), R6; \
	MOVD out+56(FP), R7; \
	MOVD $1, R8; \
	LSL  R3, R8, R8; \
	SUB  $1, R8, R8; \
	MOVD ZR, R9; \
	MOVD ZR, R10

// row = pages[ids[i]>>shift] + (ids[i] & (1<<shift - 1)) * stride; uses R14
#define LOCATE(i, row) \
	MOVWU (R5)(i<<2), row; \
	LSR   R3, row, R14; \
	MOVD  (R2)(R14<<3), R14; \
	AND   R8, row, row; \
	MADD  R4, R14, row, row

// Prefetch rows until R10 is AHEAD beyond R9 or there are no more.
#define PREFETCH(ahead, more, line, done) \
more: \
	CMP   R6, R10; \
	BGE   done; \
	ADD   $ahead, R9, R15; \
	CMP   R15, R10; \
	BGE   done; \
	LOCATE(R10, R12); \
	ADD   R19, R12, R15; \
	SUB   $1, R15, R14; \
	PRFM  (R14), PLDL1KEEP; \
line: \
	PRFM  (R12), PLDL1KEEP; \
	ADD   $64, R12, R12; \
	CMP   R15, R12; \
	BLO   line; \
	ADD   $1, R10, R10; \
	B     more; \
done:

#define AHEAD_F32 4
#define AHEAD_CODES 8
#define AHEAD_BITS 16

#define ZERO_SUMS() \
	VEOR V0.B16, V0.B16, V0.B16; \
	VEOR V1.B16, V1.B16, V1.B16; \
	VEOR V2.B16, V2.B16, V2.B16; \
	VEOR V3.B16, V3.B16, V3.B16

// F0 = sum of the lanes of V0 to V3
#define SUM_F32() \
	WORD $0x4e21d400; /* FADD V0.4S, V0.4S, V1.4S */ \
	WORD $0x4e23d442; /* FADD V2.4S, V2.4S, V3.4S */ \
	WORD $0x4e22d400; /* FADD V0.4S, V0.4S, V2.4S */ \
	WORD $0x6e20d400; /* FADDP V0.4S, V0.4S, V0.4S */ \
	WORD $0x6e20d400  /* FADDP V0.4S, V0.4S, V0.4S */

// out[R9] = sum * (row scale F22 * query scale F9) + row bias F23, the sum being
// that of the lanes of V0 and V1 and of R17; in the portable order of operations.
#define SCALE_I32() \
	VADD     V1.S4, V0.S4, V0.S4; \
	VADDV    V0.S4, V0; \
	VMOV     V0.S[0], R14; \
	ADDW     R17, R14, R14; \
	SCVTFWS  R14, F0; \
	FMULS    F9, F22, F22; \
	FMULS    F22, F0, F0; \
	FADDS    F23, F0, F0; \
	FMOVS    F0, (R7)(R9<<2)

// func dotRowsNEON(q *float32, dim int, pages *unsafe.Pointer, shift uint, stride uintptr, ids *uint32, n int, out *float32)
TEXT ·dotRowsNEON(SB), NOSPLIT, $0-64
	ARGS()
	LSL $2, R1, R19

	PREFETCH(AHEAD_F32, more, line, row)
	LOCATE(R9, R12)
	MOVD R0, R11
	MOVD R1, R13
	ZERO_SUMS()

chunk16: // four chains hide the latency of the multiply-add
	SUBS   $16, R13, R13
	BLT    rest
	VLD1.P 64(R11), [V4.S4, V5.S4, V6.S4, V7.S4]
	VLD1.P 64(R12), [V16.S4, V17.S4, V18.S4, V19.S4]
	VFMLA  V16.S4, V4.S4, V0.S4
	VFMLA  V17.S4, V5.S4, V1.S4
	VFMLA  V18.S4, V6.S4, V2.S4
	VFMLA  V19.S4, V7.S4, V3.S4
	B      chunk16

rest:
	FMOVS ZR, F20
	ADDS  $16, R13, R13
	BEQ   sum

single: // the last components one by one
	FMOVS.P 4(R11), F4
	FMOVS.P 4(R12), F5
	FMADDS  F5, F20, F4, F20
	SUBS    $1, R13, R13
	BNE     single

sum:
	SUM_F32()
	FADDS F20, F0, F0
	FMOVS F0, (R7)(R9<<2)
	ADD   $1, R9, R9
	CMP   R6, R9
	BLT   more
	RET

// func squaredL2RowsNEON(q *float32, dim int, pages *unsafe.Pointer, shift uint, stride uintptr, ids *uint32, n int, out *float32)
TEXT ·squaredL2RowsNEON(SB), NOSPLIT, $0-64
	ARGS()
	LSL $2, R1, R19

	PREFETCH(AHEAD_F32, more, line, row)
	LOCATE(R9, R12)
	MOVD R0, R11
	MOVD R1, R13
	ZERO_SUMS()

chunk16:
	SUBS   $16, R13, R13
	BLT    rest
	VLD1.P 64(R11), [V4.S4, V5.S4, V6.S4, V7.S4]
	VLD1.P 64(R12), [V16.S4, V17.S4, V18.S4, V19.S4]
	WORD   $0x4eb0d484 // FSUB V4.4S, V4.4S, V16.4S
	WORD   $0x4eb1d4a5 // FSUB V5.4S, V5.4S, V17.4S
	WORD   $0x4eb2d4c6 // FSUB V6.4S, V6.4S, V18.4S
	WORD   $0x4eb3d4e7 // FSUB V7.4S, V7.4S, V19.4S
	VFMLA  V4.S4, V4.S4, V0.S4
	VFMLA  V5.S4, V5.S4, V1.S4
	VFMLA  V6.S4, V6.S4, V2.S4
	VFMLA  V7.S4, V7.S4, V3.S4
	B      chunk16

rest:
	FMOVS ZR, F20
	ADDS  $16, R13, R13
	BEQ   sum

single: // the last components one by one
	FMOVS.P 4(R11), F4
	FMOVS.P 4(R12), F5
	FSUBS   F5, F4, F4
	FMADDS  F4, F20, F4, F20
	SUBS    $1, R13, R13
	BNE     single

sum:
	SUM_F32()
	FADDS F20, F0, F0
	FMOVS F0, (R7)(R9<<2)
	ADD   $1, R9, R9
	CMP   R6, R9
	BLT   more
	RET

// func dotCodesRowsNEON(q *float32, dim int, pages *unsafe.Pointer, shift uint, stride uintptr, ids *uint32, n int, out *float32)
TEXT ·dotCodesRowsNEON(SB), NOSPLIT, $0-64
	ARGS()
	ADD   $8, R1, R19
	MOVW  $0x43000000, R14
	VDUP  R14, V21.S4          // the code of zero: 128.0

	PREFETCH(AHEAD_CODES, more, line, row)
	LOCATE(R9, R12)
	FMOVS (R12), F22           // the row's scale
	ADD   $8, R12, R12
	MOVD  R0, R11
	MOVD  R1, R13
	ZERO_SUMS()

chunk16: // widen codes to int32, convert, take the offset off
	SUBS    $16, R13, R13
	BLT     rest
	VLD1.P  16(R12), [V4.B16]
	VUSHLL2 $0, V4.B16, V6.H8
	VUSHLL  $0, V4.B8, V4.H8
	VUSHLL2 $0, V6.H8, V7.S4
	VUSHLL  $0, V6.H4, V6.S4
	VUSHLL2 $0, V4.H8, V5.S4
	VUSHLL  $0, V4.H4, V4.S4
	WORD    $0x6e21d884 // UCVTF V4.4S, V4.4S
	WORD    $0x6e21d8a5 // UCVTF V5.4S, V5.4S
	WORD    $0x6e21d8c6 // UCVTF V6.4S, V6.4S
	WORD    $0x6e21d8e7 // UCVTF V7.4S, V7.4S
	WORD    $0x4eb5d484 // FSUB V4.4S, V4.4S, V21.4S
	WORD    $0x4eb5d4a5 // FSUB V5.4S, V5.4S, V21.4S
	WORD    $0x4eb5d4c6 // FSUB V6.4S, V6.4S, V21.4S
	WORD    $0x4eb5d4e7 // FSUB V7.4S, V7.4S, V21.4S
	VLD1.P  64(R11), [V16.S4, V17.S4, V18.S4, V19.S4]
	VFMLA   V16.S4, V4.S4, V0.S4
	VFMLA   V17.S4, V5.S4, V1.S4
	VFMLA   V18.S4, V6.S4, V2.S4
	VFMLA   V19.S4, V7.S4, V3.S4
	B       chunk16

rest:
	FMOVS ZR, F20
	ADDS  $16, R13, R13
	BEQ   sum

single: // the last components one by one
	MOVBU.P 1(R12), R14
	SUBW    $128, R14, R14
	SCVTFWS R14, F4
	FMOVS.P 4(R11), F5
	FMADDS  F5, F20, F4, F20
	SUBS    $1, R13, R13
	BNE     single

sum:
	SUM_F32()
	FADDS F20, F0, F0
	FMULS F22, F0, F0
	FMOVS F0, (R7)(R9<<2)
	ADD   $1, R9, R9
	CMP   R6, R9
	BLT   more
	RET

// func dot8RowsNEON(q *int8, dim int, pages *unsafe.Pointer, shift uint, stride uintptr, ids *uint32, n int, out *float32, scale float32)
TEXT ·dot8RowsNEON(SB), NOSPLIT, $0-68
	ARGS()
	ADD   $8, R1, R19
	FMOVS scale+64(FP), F9
	MOVD  $0x80, R14
	VDUP  R14, V21.B16         // flips codes to signed bytes

	PREFETCH(AHEAD_CODES, more, line, row)
	LOCATE(R9, R12)
	FMOVS (R12), F22
	FMOVS 4(R12), F23
	ADD   $8, R12, R12
	MOVD  R0, R11
	MOVD  R1, R13
	MOVD  ZR, R17
	ZERO_SUMS()

chunk16: // products of 8 bits in 16, added in pairs to 32
	SUBS   $16, R13, R13
	BLT    rest
	VLD1.P 16(R12), [V4.B16]
	VLD1.P 16(R11), [V16.B16]
	VEOR   V21.B16, V4.B16, V4.B16
	WORD   $0x0e30c086 // SMULL V6.8H, V4.8B, V16.8B
	WORD   $0x4e30c087 // SMULL2 V7.8H, V4.16B, V16.16B
	WORD   $0x4e6068c0 // SADALP V0.4S, V6.8H
	WORD   $0x4e6068e1 // SADALP V1.4S, V7.8H
	B      chunk16

rest:
	ADDS $16, R13, R13
	BEQ  sum

single: // the last components one by one; R17 is their sum
	MOVBU.P 1(R12), R14
	MOVB.P  1(R11), R15
	SUBW    $128, R14, R14
	MADDW   R15, R17, R14, R17
	SUBS    $1, R13, R13
	BNE     single

sum:
	SCALE_I32()
	ADD   $1, R9, R9
	CMP   R6, R9
	BLT   more
	RET

// func dot8RowsNEONDot(q *int8, dim int, pages *unsafe.Pointer, shift uint, stride uintptr, ids *uint32, n int, out *float32, scale float32)
TEXT ·dot8RowsNEONDot(SB), NOSPLIT, $0-68
	ARGS()
	ADD   $8, R1, R19
	FMOVS scale+64(FP), F9
	MOVD  $0x80, R14
	VDUP  R14, V21.B16         // flips codes to signed bytes

	PREFETCH(AHEAD_CODES, more, line, row)
	LOCATE(R9, R12)
	FMOVS (R12), F22
	FMOVS 4(R12), F23
	ADD   $8, R12, R12
	MOVD  R0, R11
	MOVD  R1, R13
	MOVD  ZR, R17
	ZERO_SUMS()

chunk32: // the dot product of signed bytes
	SUBS   $32, R13, R13
	BLT    rest
	VLD1.P 32(R12), [V4.B16, V5.B16]
	VLD1.P 32(R11), [V16.B16, V17.B16]
	VEOR   V21.B16, V4.B16, V4.B16
	VEOR   V21.B16, V5.B16, V5.B16
	WORD   $0x4e909480 // SDOT V0.4S, V4.16B, V16.16B
	WORD   $0x4e9194a1 // SDOT V1.4S, V5.16B, V17.16B
	B      chunk32

rest:
	ADDS $32, R13, R13
	BEQ  sum

single: // the last components one by one; R17 is their sum
	MOVBU.P 1(R12), R14
	MOVB.P  1(R11), R15
	SUBW    $128, R14, R14
	MADDW   R15, R17, R14, R17
	SUBS    $1, R13, R13
	BNE     single

sum:
	SCALE_I32()
	ADD   $1, R9, R9
	CMP   R6, R9
	BLT   more
	RET

// func dotBitsRowsNEON(q *uint64, words int, pages *unsafe.Pointer, shift uint, stride uintptr, ids *uint32, n int, out *float32, most int32, scale, bias float32)
TEXT ·dotBitsRowsNEON(SB), NOSPLIT, $0-76
	ARGS()
	LSL   $1, R1, R19
	ADD   $8, R19, R19
	MOVW  most+64(FP), R20
	FMOVS scale+68(FP), F9
	FMOVS bias+72(FP), F10

	PREFETCH(AHEAD_BITS, more, line, row)
	LOCATE(R9, R12)
	FMOVS (R12), F22
	FMOVS 4(R12), F23
	ADD   $8, R12, R12
	MOVD  R0, R11
	MOVD  R1, R13
	VEOR  V0.B16, V0.B16, V0.B16

grain: // 128 components beside each of the query's planes: bits that differ, by byte
	VLD1.P 16(R12), [V16.B16]
	VLD1.P 64(R11), [V4.B16, V5.B16, V6.B16, V7.B16]
	VEOR   V16.B16, V4.B16, V4.B16
	VEOR   V16.B16, V5.B16, V5.B16
	VEOR   V16.B16, V6.B16, V6.B16
	VEOR   V16.B16, V7.B16, V7.B16
	VCNT   V4.B16, V4.B16
	VCNT   V5.B16, V5.B16
	VCNT   V6.B16, V6.B16
	VCNT   V7.B16, V7.B16
	VSHL   $1, V5.B16, V5.B16
	VSHL   $2, V6.B16, V6.B16
	VSHL   $3, V7.B16, V7.B16
	VADD   V5.B16, V4.B16, V4.B16
	VADD   V7.B16, V6.B16, V6.B16
	VADD   V6.B16, V4.B16, V4.B16
	WORD   $0x6e206880 // UADALP V0.8H, V4.16B
	SUBS   $8, R13, R13
	BGT    grain

	VUADDLV V0.H8, V0
	VMOV    V0.S[0], R14
	SUBW    R14<<1, R20, R14
	SCVTFWS R14, F0
	FMULS   F9, F22, F22
	FMULS   F22, F0, F0
	FADDS   F23, F0, F0
	FADDS   F10, F0, F0
	FMOVS   F0, (R7)(R9<<2)
	ADD     $1, R9, R9
	CMP     R6, R9
	BLT     more
	RET

// func hadamardNEON(v, factors *float32, n int)
TEXT ·hadamardNEON(SB), NOSPLIT, $0-24
	MOVD v+0(FP), R0
	MOVD factors+8(FP), R1
	MOVD n+16(FP), R2
	LSL  $2, R2, R2     // bytes
	ADD  R2, R0, R3     // the end
	MOVD R0, R4

eight: // the even and the odd of each layer within eight components, in turns
	VLD1   (R4), [V0.S4, V1.S4]
	VLD1.P 32(R1), [V2.S4, V3.S4]
	WORD   $0x6e22dc00 // FMUL V0.4S, V0.4S, V2.4S
	WORD   $0x6e23dc21 // FMUL V1.4S, V1.4S, V3.4S
	VUZP1  V1.S4, V0.S4, V2.S4
	VUZP2  V1.S4, V0.S4, V3.S4
	WORD   $0x4e23d440 // FADD V0.4S, V2.4S, V3.4S
	WORD   $0x4ea3d441 // FSUB V1.4S, V2.4S, V3.4S
	VUZP1  V1.S4, V0.S4, V2.S4
	VUZP2  V1.S4, V0.S4, V3.S4
	WORD   $0x4e23d440 // FADD V0.4S, V2.4S, V3.4S
	WORD   $0x4ea3d441 // FSUB V1.4S, V2.4S, V3.4S
	VUZP1  V1.S4, V0.S4, V2.S4
	VUZP2  V1.S4, V0.S4, V3.S4
	WORD   $0x4e23d440 // FADD V0.4S, V2.4S, V3.4S
	WORD   $0x4ea3d441 // FSUB V1.4S, V2.4S, V3.4S
	VST1.P [V0.S4, V1.S4], 32(R4)
	CMP    R3, R4
	BLO    eight

	MOVD $32, R5 // the distance of pairs in a layer

layer:
	CMP  R2, R5
	BGE  done
	MOVD R0, R4

block:
	ADD  R5, R4, R6
	MOVD R6, R7

pair:
	VLD1   (R4), [V0.S4, V1.S4]
	VLD1   (R6), [V2.S4, V3.S4]
	WORD   $0x4e22d404 // FADD V4.4S, V0.4S, V2.4S
	WORD   $0x4e23d425 // FADD V5.4S, V1.4S, V3.4S
	WORD   $0x4ea2d406 // FSUB V6.4S, V0.4S, V2.4S
	WORD   $0x4ea3d427 // FSUB V7.4S, V1.4S, V3.4S
	VST1.P [V4.S4, V5.S4], 32(R4)
	VST1.P [V6.S4, V7.S4], 32(R6)
	CMP    R7, R4
	BLO    pair
	MOVD   R6, R4
	CMP    R3, R4
	BLO    block
	LSL    $1, R5, R5
	B      layer

done:
	RET

// func prefetch(p unsafe.Pointer)
TEXT ·prefetch(SB), NOSPLIT, $0-8
	MOVD p+0(FP), R0
	PRFM (R0), PLDL1KEEP
	ADD  $64, R0, R0
	PRFM (R0), PLDL1KEEP
	RET
