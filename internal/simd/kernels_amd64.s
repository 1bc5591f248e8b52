#include "textflag.h"

// Every kernel scores one query against n rows, and shares these registers:
//
//	R8 query   R9 pages   CX shift   R14 1<<shift - 1   R10 stride
//	R11 ids    R12 n      R13 out    R15 bytes of a row that are read
//	DI  row being scored   SI  row being prefetched
//	AX  cursor in the query   BX  cursor in the row   DX  components left
//
// Rows lie anywhere in memory, so that each first access is a miss. Before a
// row is scored, the rows up to AHEAD places further on are prefetched, which
// keeps that many misses in flight.

#define ARGS() \
	MOVQ q+0(FP), R8; \
	MOVQ pages+16(FP), R9; \
	MOVQ shift+24(FP), CX; \
	MOVQ stride+32(FP), R10; \
	MOVQ ids+40(FP), R11; \
	MOVQ n+48(FP), R12; \
	MOVQ out+56(FP), R13; \
	MOVQ $1, R14; \
	SHLQ CX, R14; \
	DECQ R14; \
	XORQ SI, SI; \
	XORQ DI, DI

// row = pages[ids[i]>>shift] + (ids[i] & (1<<shift - 1)) * stride
#define LOCATE(i, row, tmp) \
	MOVL  (R11)(i*4), row; \
	SHRXQ CX, row, tmp; \
	ANDQ  R14, row; \
	IMULQ R10, row; \
	ADDQ  (R9)(tmp*8), row

// Prefetch rows until SI is AHEAD beyond DI or there are no more. A row need
// not begin at a cache line, so its last byte is asked for too. Of a long one the
// processor itself fetches the rest while the beginning is read, and sooner than
// misses that were asked for would let it.
#define PREFETCH(ahead, more, line, done) \
more: \
	CMPQ       SI, R12; \
	JGE        done; \
	LEAQ       ahead(DI), DX; \
	CMPQ       SI, DX; \
	JGE        done; \
	LOCATE(SI, DX, BX); \
	MOVQ       $AHEAD_BYTES, AX; \
	CMPQ       R15, AX; \
	CMOVQLT    R15, AX; \
	PREFETCHT0 -1(DX)(AX*1); \
line: \
	PREFETCHT0 (DX); \
	ADDQ       $64, DX; \
	SUBQ       $64, AX; \
	JGT        line; \
	INCQ       SI; \
	JMP        more; \
done:

// The same where R15 is used otherwise between rows.
#define PREFETCH8(more, line, done) \
more: \
	MOVQ       dim+8(FP), R15; \
	ADDQ       $8, R15; \
	PREFETCH(AHEAD_CODES, again, line, done)

// float32 rows are long: few of them fill the processor's miss buffers.
#define AHEAD_F32 4
#define AHEAD_CODES 4
#define AHEAD_BITS 32
#define AHEAD_BYTES 512

// X0 = sum of the 16 float32 lanes of Z0..Z3
#define SUM_F32_512() \
	VADDPS        Z1, Z0, Z0; \
	VADDPS        Z3, Z2, Z2; \
	VADDPS        Z2, Z0, Z0; \
	VEXTRACTF64X4 $1, Z0, Y1; \
	VADDPS        Y1, Y0, Y0; \
	SUM_F32_Y0()

// X0 = sum of the 8 float32 lanes of Y0
#define SUM_F32_Y0() \
	VEXTRACTF128 $1, Y0, X1; \
	VADDPS       X1, X0, X0; \
	VHADDPS      X0, X0, X0; \
	VHADDPS      X0, X0, X0

// AX = sum of the 8 int32 lanes of Y0
#define SUM_I32_Y0() \
	VEXTRACTI128 $1, Y0, X1; \
	VPADDD       X1, X0, X0; \
	VPHADDD      X0, X0, X0; \
	VPHADDD      X0, X0, X0; \
	VMOVD        X0, AX

// K1 = mask of the dim % 16 lanes of the last, partial chunk
#define TAIL_MASK_16() \
	MOVQ  dim+8(FP), DX; \
	ANDQ  $15, DX; \
	MOVQ  $-1, AX; \
	SHLXQ DX, AX, AX; \
	NOTQ  AX; \
	KMOVW AX, K1

// out[DI] = sum * (row scale X6 * query scale X9) + row bias X7, the sum being
// AX less the offset of the codes; in the portable order of operations.
#define SCALE_I32() \
	SUBL      R15, AX; \
	VXORPS    X0, X0, X0; \
	VCVTSI2SSL AX, X0, X0; \
	VMULSS    X9, X6, X6; \
	VMULSS    X6, X0, X0; \
	VADDSS    X7, X0, X0; \
	VMOVSS    X0, (R13)(DI*4)

// R15 = bytes of a row of bits: its head, and a quarter of the query
#define BITS_BYTES() \
	MOVQ words+8(FP), R15; \
	LEAQ 8(R15*2), R15

// out[DI] = (most - 2 * differing bits AX) * (row scale X6 * query scale X9) + row
// bias X7 + query bias X10, in the portable order of operations.
#define SCALE_BITS() \
	MOVL       most+64(FP), DX; \
	SUBL       AX, DX; \
	SUBL       AX, DX; \
	VXORPS     X0, X0, X0; \
	VCVTSI2SSL DX, X0, X0; \
	VMULSS     X9, X6, X6; \
	VMULSS     X6, X0, X0; \
	VADDSS     X7, X0, X0; \
	VADDSS     X10, X0, X0; \
	VMOVSS     X0, (R13)(DI*4)

// R12 = bits in which the words R15 and R13 of a row differ from those of a plane
#define DIFFERING(offset) \
	MOVQ    offset(AX), R12; \
	MOVQ    offset+8(AX), R10; \
	XORQ    R15, R12; \
	XORQ    R13, R10; \
	POPCNTQ R12, R12; \
	POPCNTQ R10, R10; \
	ADDQ    R10, R12

// func dotRowsAVX512(q *float32, dim int, pages *unsafe.Pointer, shift uint, stride uintptr, ids *uint32, n int, out *float32)
TEXT ·dotRowsAVX512(SB), NOSPLIT, $0-64
	ARGS()
	TAIL_MASK_16()
	MOVQ dim+8(FP), R15
	SHLQ $2, R15

	PREFETCH(AHEAD_F32, more, line, row)
	LOCATE(DI, BX, DX)
	MOVQ   R8, AX
	MOVQ   dim+8(FP), DX
	VXORPS X0, X0, X0
	VXORPS X1, X1, X1
	VXORPS X2, X2, X2
	VXORPS X3, X3, X3

chunk64: // four chains hide the latency of the multiply-add
	SUBQ        $64, DX
	JLT         rest
	VMOVUPS     (AX), Z4
	VMOVUPS     64(AX), Z5
	VMOVUPS     128(AX), Z6
	VMOVUPS     192(AX), Z7
	VFMADD231PS (BX), Z4, Z0
	VFMADD231PS 64(BX), Z5, Z1
	VFMADD231PS 128(BX), Z6, Z2
	VFMADD231PS 192(BX), Z7, Z3
	ADDQ        $256, AX
	ADDQ        $256, BX
	JMP         chunk64

rest:
	ADDQ $64, DX

chunk16:
	SUBQ        $16, DX
	JLT         tail
	VMOVUPS     (AX), Z4
	VFMADD231PS (BX), Z4, Z0
	ADDQ        $64, AX
	ADDQ        $64, BX
	JMP         chunk16

tail: // masked lanes are neither read nor counted
	ADDQ        $16, DX
	JZ          sum
	VMOVUPS.Z   (AX), K1, Z4
	VMOVUPS.Z   (BX), K1, Z5
	VFMADD231PS Z5, Z4, Z1

sum:
	SUM_F32_512()
	VMOVSS X0, (R13)(DI*4)
	INCQ   DI
	CMPQ   DI, R12
	JLT    more
	VZEROUPPER
	RET

// func squaredL2RowsAVX512(q *float32, dim int, pages *unsafe.Pointer, shift uint, stride uintptr, ids *uint32, n int, out *float32)
TEXT ·squaredL2RowsAVX512(SB), NOSPLIT, $0-64
	ARGS()
	TAIL_MASK_16()
	MOVQ dim+8(FP), R15
	SHLQ $2, R15

	PREFETCH(AHEAD_F32, more, line, row)
	LOCATE(DI, BX, DX)
	MOVQ   R8, AX
	MOVQ   dim+8(FP), DX
	VXORPS X0, X0, X0
	VXORPS X1, X1, X1
	VXORPS X2, X2, X2
	VXORPS X3, X3, X3

chunk64:
	SUBQ        $64, DX
	JLT         rest
	VMOVUPS     (AX), Z4
	VMOVUPS     64(AX), Z5
	VMOVUPS     128(AX), Z6
	VMOVUPS     192(AX), Z7
	VSUBPS      (BX), Z4, Z4
	VSUBPS      64(BX), Z5, Z5
	VSUBPS      128(BX), Z6, Z6
	VSUBPS      192(BX), Z7, Z7
	VFMADD231PS Z4, Z4, Z0
	VFMADD231PS Z5, Z5, Z1
	VFMADD231PS Z6, Z6, Z2
	VFMADD231PS Z7, Z7, Z3
	ADDQ        $256, AX
	ADDQ        $256, BX
	JMP         chunk64

rest:
	ADDQ $64, DX

chunk16:
	SUBQ        $16, DX
	JLT         tail
	VMOVUPS     (AX), Z4
	VSUBPS      (BX), Z4, Z4
	VFMADD231PS Z4, Z4, Z0
	ADDQ        $64, AX
	ADDQ        $64, BX
	JMP         chunk16

tail: // masked lanes are neither read nor counted
	ADDQ        $16, DX
	JZ          sum
	VMOVUPS.Z   (AX), K1, Z4
	VMOVUPS.Z   (BX), K1, Z5
	VSUBPS      Z5, Z4, Z4
	VFMADD231PS Z4, Z4, Z1

sum:
	SUM_F32_512()
	VMOVSS X0, (R13)(DI*4)
	INCQ   DI
	CMPQ   DI, R12
	JLT    more
	VZEROUPPER
	RET

// func dotCodesRowsAVX512(q *float32, dim int, pages *unsafe.Pointer, shift uint, stride uintptr, ids *uint32, n int, out *float32)
TEXT ·dotCodesRowsAVX512(SB), NOSPLIT, $0-64
	ARGS()
	TAIL_MASK_16()
	MOVQ         dim+8(FP), R15
	ADDQ         $8, R15
	MOVL         $128, AX
	VPBROADCASTD AX, Z8               // the code of zero

	PREFETCH(AHEAD_CODES, more, line, row)
	LOCATE(DI, BX, DX)
	VMOVSS (BX), X9                   // the row's scale
	ADDQ   $8, BX
	MOVQ   R8, AX
	MOVQ   dim+8(FP), DX
	VXORPS X0, X0, X0
	VXORPS X1, X1, X1
	VXORPS X2, X2, X2
	VXORPS X3, X3, X3

chunk64: // widen codes to int32, take the offset off, convert
	SUBQ        $64, DX
	JLT         rest
	VPMOVZXBD   (BX), Z4
	VPMOVZXBD   16(BX), Z5
	VPMOVZXBD   32(BX), Z6
	VPMOVZXBD   48(BX), Z7
	VPSUBD      Z8, Z4, Z4
	VPSUBD      Z8, Z5, Z5
	VPSUBD      Z8, Z6, Z6
	VPSUBD      Z8, Z7, Z7
	VCVTDQ2PS   Z4, Z4
	VCVTDQ2PS   Z5, Z5
	VCVTDQ2PS   Z6, Z6
	VCVTDQ2PS   Z7, Z7
	VFMADD231PS (AX), Z4, Z0
	VFMADD231PS 64(AX), Z5, Z1
	VFMADD231PS 128(AX), Z6, Z2
	VFMADD231PS 192(AX), Z7, Z3
	ADDQ        $256, AX
	ADDQ        $64, BX
	JMP         chunk64

rest:
	ADDQ $64, DX

chunk16:
	SUBQ        $16, DX
	JLT         tail
	VPMOVZXBD   (BX), Z4
	VPSUBD      Z8, Z4, Z4
	VCVTDQ2PS   Z4, Z4
	VFMADD231PS (AX), Z4, Z0
	ADDQ        $64, AX
	ADDQ        $16, BX
	JMP         chunk16

tail: // masked lanes are not read, and zero in the query
	ADDQ        $16, DX
	JZ          sum
	VPMOVZXBD.Z (BX), K1, Z4
	VPSUBD      Z8, Z4, Z4
	VCVTDQ2PS   Z4, Z4
	VMOVUPS.Z   (AX), K1, Z5
	VFMADD231PS Z5, Z4, Z1

sum:
	SUM_F32_512()
	VMULSS X9, X0, X0
	VMOVSS X0, (R13)(DI*4)
	INCQ   DI
	CMPQ   DI, R12
	JLT    more
	VZEROUPPER
	RET

// func dot8RowsVNNI(q *int8, dim int, pages *unsafe.Pointer, shift uint, stride uintptr, ids *uint32, n int, out *float32, offset int32, scale float32)
TEXT ·dot8RowsVNNI(SB), NOSPLIT, $0-72
	ARGS()
	VMOVSS scale+68(FP), X9

	// K1 = mask of the dim % 64 bytes of the last, partial chunk
	MOVQ  dim+8(FP), DX
	ANDQ  $63, DX
	MOVQ  $-1, AX
	SHLXQ DX, AX, AX
	NOTQ  AX
	KMOVQ AX, K1

	PREFETCH8(more, line, row)
	LOCATE(DI, BX, DX)
	VMOVSS (BX), X6
	VMOVSS 4(BX), X7
	ADDQ   $8, BX
	MOVQ   R8, AX
	MOVQ   dim+8(FP), DX
	VPXOR  X0, X0, X0
	VPXOR  X1, X1, X1

chunk128: // codes are the unsigned operand, the query the signed one
	SUBQ      $128, DX
	JLT       rest
	VMOVDQU32 (BX), Z4
	VMOVDQU32 64(BX), Z5
	VPDPBUSD  (AX), Z4, Z0
	VPDPBUSD  64(AX), Z5, Z1
	ADDQ      $128, AX
	ADDQ      $128, BX
	JMP       chunk128

rest:
	ADDQ      $64, DX
	JLT       tail
	VMOVDQU32 (BX), Z4
	VPDPBUSD  (AX), Z4, Z0
	ADDQ      $64, AX
	ADDQ      $64, BX
	SUBQ      $64, DX

tail: // masked lanes are neither read nor counted
	ADDQ       $64, DX
	JZ         sum
	VMOVDQU8.Z (BX), K1, Z4
	VMOVDQU8.Z (AX), K1, Z5
	VPDPBUSD   Z5, Z4, Z1

sum:
	VPADDD        Z1, Z0, Z0
	VEXTRACTI64X4 $1, Z0, Y1
	VPADDD        Y1, Y0, Y0
	SUM_I32_Y0()
	MOVL          offset+64(FP), R15
	SCALE_I32()
	INCQ          DI
	CMPQ          DI, R12
	JLT           more
	VZEROUPPER
	RET

// func dotRowsAVX2(q *float32, dim int, pages *unsafe.Pointer, shift uint, stride uintptr, ids *uint32, n int, out *float32)
TEXT ·dotRowsAVX2(SB), NOSPLIT, $0-64
	ARGS()
	MOVQ dim+8(FP), R15
	SHLQ $2, R15

	PREFETCH(AHEAD_F32, more, line, row)
	LOCATE(DI, BX, DX)
	MOVQ   R8, AX
	MOVQ   dim+8(FP), DX
	VXORPS X0, X0, X0
	VXORPS X1, X1, X1
	VXORPS X2, X2, X2
	VXORPS X3, X3, X3
	VXORPS X8, X8, X8

chunk32:
	SUBQ        $32, DX
	JLT         rest
	VMOVUPS     (AX), Y4
	VMOVUPS     32(AX), Y5
	VMOVUPS     64(AX), Y6
	VMOVUPS     96(AX), Y7
	VFMADD231PS (BX), Y4, Y0
	VFMADD231PS 32(BX), Y5, Y1
	VFMADD231PS 64(BX), Y6, Y2
	VFMADD231PS 96(BX), Y7, Y3
	ADDQ        $128, AX
	ADDQ        $128, BX
	JMP         chunk32

rest:
	ADDQ $32, DX

chunk8:
	SUBQ        $8, DX
	JLT         tail
	VMOVUPS     (AX), Y4
	VFMADD231PS (BX), Y4, Y0
	ADDQ        $32, AX
	ADDQ        $32, BX
	JMP         chunk8

tail:
	ADDQ $8, DX
	JZ   sum

single: // the last components one by one, in a lane of their own
	VMOVSS      (AX), X4
	VFMADD231SS (BX), X4, X8
	ADDQ        $4, AX
	ADDQ        $4, BX
	DECQ        DX
	JNZ         single

sum:
	VADDPS Y1, Y0, Y0
	VADDPS Y3, Y2, Y2
	VADDPS Y2, Y0, Y0
	SUM_F32_Y0()
	VADDSS X8, X0, X0
	VMOVSS X0, (R13)(DI*4)
	INCQ   DI
	CMPQ   DI, R12
	JLT    more
	VZEROUPPER
	RET

// func squaredL2RowsAVX2(q *float32, dim int, pages *unsafe.Pointer, shift uint, stride uintptr, ids *uint32, n int, out *float32)
TEXT ·squaredL2RowsAVX2(SB), NOSPLIT, $0-64
	ARGS()
	MOVQ dim+8(FP), R15
	SHLQ $2, R15

	PREFETCH(AHEAD_F32, more, line, row)
	LOCATE(DI, BX, DX)
	MOVQ   R8, AX
	MOVQ   dim+8(FP), DX
	VXORPS X0, X0, X0
	VXORPS X1, X1, X1
	VXORPS X2, X2, X2
	VXORPS X3, X3, X3
	VXORPS X8, X8, X8

chunk32:
	SUBQ        $32, DX
	JLT         rest
	VMOVUPS     (AX), Y4
	VMOVUPS     32(AX), Y5
	VMOVUPS     64(AX), Y6
	VMOVUPS     96(AX), Y7
	VSUBPS      (BX), Y4, Y4
	VSUBPS      32(BX), Y5, Y5
	VSUBPS      64(BX), Y6, Y6
	VSUBPS      96(BX), Y7, Y7
	VFMADD231PS Y4, Y4, Y0
	VFMADD231PS Y5, Y5, Y1
	VFMADD231PS Y6, Y6, Y2
	VFMADD231PS Y7, Y7, Y3
	ADDQ        $128, AX
	ADDQ        $128, BX
	JMP         chunk32

rest:
	ADDQ $32, DX

chunk8:
	SUBQ        $8, DX
	JLT         tail
	VMOVUPS     (AX), Y4
	VSUBPS      (BX), Y4, Y4
	VFMADD231PS Y4, Y4, Y0
	ADDQ        $32, AX
	ADDQ        $32, BX
	JMP         chunk8

tail:
	ADDQ $8, DX
	JZ   sum

single: // the last components one by one, in a lane of their own
	VMOVSS      (AX), X4
	VSUBSS      (BX), X4, X4
	VFMADD231SS X4, X4, X8
	ADDQ        $4, AX
	ADDQ        $4, BX
	DECQ        DX
	JNZ         single

sum:
	VADDPS Y1, Y0, Y0
	VADDPS Y3, Y2, Y2
	VADDPS Y2, Y0, Y0
	SUM_F32_Y0()
	VADDSS X8, X0, X0
	VMOVSS X0, (R13)(DI*4)
	INCQ   DI
	CMPQ   DI, R12
	JLT    more
	VZEROUPPER
	RET

// func dotCodesRowsAVX2(q *float32, dim int, pages *unsafe.Pointer, shift uint, stride uintptr, ids *uint32, n int, out *float32)
TEXT ·dotCodesRowsAVX2(SB), NOSPLIT, $0-64
	ARGS()
	MOVQ         dim+8(FP), R15
	ADDQ         $8, R15
	MOVL         $128, AX
	VMOVD        AX, X10
	VPBROADCASTD X10, Y10             // the code of zero

	PREFETCH(AHEAD_CODES, more, line, row)
	LOCATE(DI, BX, DX)
	VMOVSS (BX), X9                   // the row's scale
	ADDQ   $8, BX
	MOVQ   R8, AX
	MOVQ   dim+8(FP), DX
	VXORPS X0, X0, X0
	VXORPS X1, X1, X1
	VXORPS X8, X8, X8

chunk16: // widen codes to int32, take the offset off, convert
	SUBQ        $16, DX
	JLT         rest
	VPMOVZXBD   (BX), Y4
	VPMOVZXBD   8(BX), Y5
	VPSUBD      Y10, Y4, Y4
	VPSUBD      Y10, Y5, Y5
	VCVTDQ2PS   Y4, Y4
	VCVTDQ2PS   Y5, Y5
	VFMADD231PS (AX), Y4, Y0
	VFMADD231PS 32(AX), Y5, Y1
	ADDQ        $64, AX
	ADDQ        $16, BX
	JMP         chunk16

rest:
	ADDQ $16, DX
	JZ   sum

single: // the last components one by one, in a lane of their own
	MOVBLZX     (BX), R15
	SUBL        $128, R15
	VCVTSI2SSL  R15, X8, X4
	VMOVSS      (AX), X5
	VFMADD231SS X5, X4, X8
	ADDQ        $4, AX
	INCQ        BX
	DECQ        DX
	JNZ         single

sum:
	MOVQ   dim+8(FP), R15
	ADDQ   $8, R15
	VADDPS Y1, Y0, Y0
	SUM_F32_Y0()
	VADDSS X8, X0, X0
	VMULSS X9, X0, X0
	VMOVSS X0, (R13)(DI*4)
	INCQ   DI
	CMPQ   DI, R12
	JLT    more
	VZEROUPPER
	RET

// func dot8RowsAVX2(q *int8, dim int, pages *unsafe.Pointer, shift uint, stride uintptr, ids *uint32, n int, out *float32, offset int32, scale float32)
TEXT ·dot8RowsAVX2(SB), NOSPLIT, $0-72
	ARGS()
	VMOVSS scale+68(FP), X9

	PREFETCH8(more, line, row)
	LOCATE(DI, BX, DX)
	VMOVSS (BX), X6
	VMOVSS 4(BX), X7
	ADDQ   $8, BX
	MOVQ   R8, AX
	MOVQ   dim+8(FP), DX
	VPXOR  X0, X0, X0
	VPXOR  X1, X1, X1
	XORL   R15, R15

chunk32: // in 16 bits, where the byte multiply-add would saturate
	SUBQ      $32, DX
	JLT       rest
	VPMOVZXBW (BX), Y2
	VPMOVZXBW 16(BX), Y3
	VPMOVSXBW (AX), Y4
	VPMOVSXBW 16(AX), Y5
	VPMADDWD  Y2, Y4, Y4
	VPMADDWD  Y3, Y5, Y5
	VPADDD    Y4, Y0, Y0
	VPADDD    Y5, Y1, Y1
	ADDQ      $32, AX
	ADDQ      $32, BX
	JMP       chunk32

rest:
	ADDQ $32, DX
	JZ   sum

single: // the last components one by one; R15 is their sum
	MOVBLZX (BX), R13
	MOVBLSX (AX), R12
	IMULL   R12, R13
	ADDL    R13, R15
	INCQ    AX
	INCQ    BX
	DECQ    DX
	JNZ     single
	MOVQ    n+48(FP), R12
	MOVQ    out+56(FP), R13

sum:
	VPADDD Y1, Y0, Y0
	SUM_I32_Y0()
	ADDL   R15, AX
	MOVL   offset+64(FP), R15
	SCALE_I32()
	INCQ   DI
	CMPQ   DI, R12
	JLT    more
	VZEROUPPER
	RET

// What the bits of each plane count: 1, 2, 4, 8, as shifts of the lanes.
DATA shifts<>+0(SB)/8, $0
DATA shifts<>+8(SB)/8, $0
DATA shifts<>+16(SB)/8, $1
DATA shifts<>+24(SB)/8, $1
DATA shifts<>+32(SB)/8, $2
DATA shifts<>+40(SB)/8, $2
DATA shifts<>+48(SB)/8, $3
DATA shifts<>+56(SB)/8, $3
GLOBL shifts<>(SB), RODATA|NOPTR, $64

// func dotBitsRowsVPOPCNT(q *uint64, words int, pages *unsafe.Pointer, shift uint, stride uintptr, ids *uint32, n int, out *float32, most int32, scale, bias float32)
TEXT ·dotBitsRowsVPOPCNT(SB), NOSPLIT, $0-76
	ARGS()
	VMOVSS    scale+68(FP), X9
	VMOVSS    bias+72(FP), X10
	VMOVDQU64 shifts<>(SB), Z8
	BITS_BYTES()

	PREFETCH(AHEAD_BITS, more, line, row)
	LOCATE(DI, BX, DX)
	VMOVSS (BX), X6
	VMOVSS 4(BX), X7
	ADDQ   $8, BX
	MOVQ   R8, AX
	MOVQ   words+8(FP), DX
	VPXOR  X0, X0, X0

grain: // 128 components beside each of the query's planes
	VBROADCASTI64X2 (BX), Z4
	VPXORQ          (AX), Z4, Z4
	VPOPCNTQ        Z4, Z4
	VPADDQ          Z4, Z0, Z0
	ADDQ            $64, AX
	ADDQ            $16, BX
	SUBQ            $8, DX
	JGT             grain

	VPSLLVQ       Z8, Z0, Z0
	VEXTRACTI64X4 $1, Z0, Y1
	VPADDQ        Y1, Y0, Y0
	VEXTRACTI128  $1, Y0, X1
	VPADDQ        X1, X0, X0
	VPSRLDQ       $8, X0, X1
	VPADDQ        X1, X0, X0
	VMOVD         X0, AX
	SCALE_BITS()
	INCQ          DI
	CMPQ          DI, R12
	JLT           more
	VZEROUPPER
	RET

// func dotBitsRowsPOPCNT(q *uint64, words int, pages *unsafe.Pointer, shift uint, stride uintptr, ids *uint32, n int, out *float32, most int32, scale, bias float32)
TEXT ·dotBitsRowsPOPCNT(SB), NOSPLIT, $0-76
	ARGS()
	VMOVSS scale+68(FP), X9
	VMOVSS bias+72(FP), X10
	BITS_BYTES()

	PREFETCH(AHEAD_BITS, more, line, row)
	LOCATE(DI, BX, DX)
	VMOVSS (BX), X6
	VMOVSS 4(BX), X7
	ADDQ   $8, BX
	MOVQ   R8, AX
	MOVQ   words+8(FP), DX
	XORL   R8, R8          // the sum

grain: // 128 components beside each of the query's planes, the highest first
	MOVQ (BX), R15
	MOVQ 8(BX), R13
	DIFFERING(48)
	LEAQ (R12)(R12*1), CX
	DIFFERING(32)
	ADDQ R12, CX
	ADDQ CX, CX
	DIFFERING(16)
	ADDQ R12, CX
	ADDQ CX, CX
	DIFFERING(0)
	ADDQ R12, CX
	ADDQ CX, R8
	ADDQ $64, AX
	ADDQ $16, BX
	SUBQ $8, DX
	JGT  grain

	MOVQ R8, AX
	MOVQ q+0(FP), R8
	MOVQ shift+24(FP), CX
	MOVQ stride+32(FP), R10
	MOVQ n+48(FP), R12
	MOVQ out+56(FP), R13
	SCALE_BITS()
	BITS_BYTES()
	INCQ DI
	CMPQ DI, R12
	JLT  more
	VZEROUPPER
	RET

// What the components of eight are added times, for differences at a distance of 1,
// 2 and 4.
DATA signs<>+0(SB)/8, $0xbf8000003f800000
DATA signs<>+8(SB)/8, $0xbf8000003f800000
DATA signs<>+16(SB)/8, $0xbf8000003f800000
DATA signs<>+24(SB)/8, $0xbf8000003f800000
DATA signs<>+32(SB)/8, $0x3f8000003f800000
DATA signs<>+40(SB)/8, $0xbf800000bf800000
DATA signs<>+48(SB)/8, $0x3f8000003f800000
DATA signs<>+56(SB)/8, $0xbf800000bf800000
DATA signs<>+64(SB)/8, $0x3f8000003f800000
DATA signs<>+72(SB)/8, $0x3f8000003f800000
DATA signs<>+80(SB)/8, $0xbf800000bf800000
DATA signs<>+88(SB)/8, $0xbf800000bf800000
GLOBL signs<>(SB), RODATA|NOPTR, $96

// func hadamardAVX2(v, factors *float32, n int)
TEXT ·hadamardAVX2(SB), NOSPLIT, $0-24
	MOVQ    v+0(FP), DI
	MOVQ    factors+8(FP), AX
	MOVQ    n+16(FP), R9
	SHLQ    $2, R9                // bytes
	LEAQ    (DI)(R9*1), DX        // the end
	VMOVUPS signs<>+0(SB), Y13
	VMOVUPS signs<>+32(SB), Y14
	VMOVUPS signs<>+64(SB), Y15
	MOVQ    DI, SI

eight: // times its sign, plus the other of each pair: the layers within eight components
	VMOVUPS     (SI), Y0
	VMULPS      (AX), Y0, Y0
	VPERMILPS   $0xb1, Y0, Y1
	VFMADD213PS Y1, Y13, Y0
	VPERMILPS   $0x4e, Y0, Y1
	VFMADD213PS Y1, Y14, Y0
	VPERM2F128  $1, Y0, Y0, Y1
	VFMADD213PS Y1, Y15, Y0
	VMOVUPS     Y0, (SI)
	ADDQ        $32, AX
	ADDQ        $32, SI
	CMPQ        SI, DX
	JCS         eight

	MOVQ $32, R8 // the distance of pairs in a layer

layer:
	CMPQ R8, R9
	JGE  done
	MOVQ DI, SI

block:
	LEAQ (SI)(R8*1), BX
	MOVQ BX, R10

pair:
	VMOVUPS (SI), Y0
	VMOVUPS (BX), Y1
	VADDPS  Y1, Y0, Y2
	VSUBPS  Y1, Y0, Y3
	VMOVUPS Y2, (SI)
	VMOVUPS Y3, (BX)
	ADDQ    $32, SI
	ADDQ    $32, BX
	CMPQ    SI, R10
	JCS     pair
	MOVQ    BX, SI
	CMPQ    SI, DX
	JCS     block
	SHLQ    $1, R8
	JMP     layer

done:
	VZEROUPPER
	RET

// What follows takes one vector, of a multiple of eight components: R9 of them.

// func squaresAVX2(v *float32, n int, sums *[8]float64)
TEXT ·squaresAVX2(SB), NOSPLIT, $0-24
	MOVQ   v+0(FP), SI
	MOVQ   n+8(FP), R9
	MOVQ   sums+16(FP), DI
	VXORPS Y0, Y0, Y0
	VXORPS Y1, Y1, Y1

eight: // the products are exact, so that fusing the addition changes nothing
	VCVTPS2PD   (SI), Y2
	VCVTPS2PD   16(SI), Y3
	VFMADD231PD Y2, Y2, Y0
	VFMADD231PD Y3, Y3, Y1
	ADDQ        $32, SI
	SUBQ        $8, R9
	JGT         eight
	VMOVUPD     Y0, (DI)
	VMOVUPD     Y1, 32(DI)
	VZEROUPPER
	RET

// func largestAVX2(v *float32, n int) uint32
TEXT ·largestAVX2(SB), NOSPLIT, $0-20
	MOVQ     v+0(FP), SI
	MOVQ     n+8(FP), R9
	VPCMPEQD Y1, Y1, Y1
	VPSRLD   $1, Y1, Y1 // all but the signs
	VPXOR    Y0, Y0, Y0

eight:
	VPAND        (SI), Y1, Y2
	VPMAXUD      Y2, Y0, Y0
	ADDQ         $32, SI
	SUBQ         $8, R9
	JGT          eight
	VEXTRACTI128 $1, Y0, X1
	VPMAXUD      X1, X0, X0
	VPSHUFD      $0x4e, X0, X1
	VPMAXUD      X1, X0, X0
	VPSHUFD      $0xb1, X0, X1
	VPMAXUD      X1, X0, X0
	VMOVD        X0, AX
	MOVL         AX, ret+16(FP)
	VZEROUPPER
	RET

// func scaleAVX2(dst, v *float32, n int, by float64)
TEXT ·scaleAVX2(SB), NOSPLIT, $0-32
	MOVQ         dst+0(FP), DI
	MOVQ         v+8(FP), SI
	MOVQ         n+16(FP), R9
	VBROADCASTSD by+24(FP), Y15

eight:
	VCVTPS2PD  (SI), Y0
	VCVTPS2PD  16(SI), Y1
	VMULPD     Y15, Y0, Y0
	VMULPD     Y15, Y1, Y1
	VCVTPD2PSY Y0, X0
	VCVTPD2PSY Y1, X1
	VMOVUPS    X0, (DI)
	VMOVUPS    X1, 16(DI)
	ADDQ       $32, SI
	ADDQ       $32, DI
	SUBQ       $8, R9
	JGT        eight
	VZEROUPPER
	RET

// func round8AVX2(v *float32, n int, by float64, codes *int8, s *roundSums)
TEXT ·round8AVX2(SB), NOSPLIT, $0-40
	MOVQ         v+0(FP), SI
	MOVQ         n+8(FP), R9
	VBROADCASTSD by+16(FP), Y15
	MOVQ         codes+24(FP), DI
	MOVQ         s+32(FP), DX
	VXORPS       Y8, Y8, Y8
	VXORPS       Y9, Y9, Y9
	VPXOR        X10, X10, X10
	VPXOR        X11, X11, X11

eight:
	VCVTPS2PD   (SI), Y0
	VCVTPS2PD   16(SI), Y1
	VMULPD      Y15, Y0, Y0
	VMULPD      Y15, Y1, Y1
	VCVTPD2DQY  Y0, X2
	VCVTPD2DQY  Y1, X3
	VCVTDQ2PD   X2, Y4
	VCVTDQ2PD   X3, Y5
	VSUBPD      Y4, Y0, Y0
	VSUBPD      Y5, Y1, Y1
	VFMADD231PD Y0, Y0, Y8
	VFMADD231PD Y1, Y1, Y9
	VPADDD      X2, X10, X10
	VPADDD      X3, X10, X10
	VPABSD      X2, X6
	VPABSD      X3, X7
	VPADDD      X6, X11, X11
	VPADDD      X7, X11, X11
	VPACKSSDW   X3, X2, X2
	VPACKSSWB   X2, X2, X2
	VMOVQ       X2, (DI)
	ADDQ        $32, SI
	ADDQ        $8, DI
	SUBQ        $8, R9
	JGT         eight
	VMOVUPD     Y8, (DX)
	VMOVUPD     Y9, 32(DX)
	VMOVDQU     X10, 64(DX)
	VMOVDQU     X11, 80(DX)
	VZEROUPPER
	RET

// func prefetch(p unsafe.Pointer)
TEXT ·prefetch(SB), NOSPLIT, $0-8
	MOVQ       p+0(FP), AX
	PREFETCHT0 (AX)
	PREFETCHT0 64(AX)
	RET
