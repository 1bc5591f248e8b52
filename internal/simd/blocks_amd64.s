#include "textflag.h"

// Blocks of sixteen rows, see blocks.go. Registers:
//
//	R8 block   R9 bits being looked up   R10 tables   SI grains left
//	Z4, Z5 sums of all bytes and of odd ones as 16-bit lanes

DATA nibbles<>+0(SB)/8, $0x0f0f0f0f0f0f0f0f
GLOBL nibbles<>(SB), RODATA|NOPTR, $8
DATA halfMost<>+0(SB)/4, $0x41fc0000
GLOBL halfMost<>(SB), RODATA|NOPTR, $4 // 31.5

// One grain: 8 groups of 16 rows, the first four in the low halves of its bytes.
#define LOOK16(off, tables, a, b) \
	VMOVDQU64 off(R9), Z10; \
	VPANDQ    Z31, Z10, Z12; \
	VPSRLW    $4, Z10, Z10; \
	VPANDQ    Z31, Z10, Z10; \
	VMOVDQU64 tables(R10), Z11; \
	VPSHUFB   Z12, Z11, a; \
	VMOVDQU64 (tables+64)(R10), Z11; \
	VPSHUFB   Z10, Z11, b

// func scanBlockAVX512(table *uint8, grains int, block unsafe.Pointer, delta, shift, base, bar float32, found *Found) int
TEXT ·scanBlockAVX512(SB), NOSPLIT, $0-56
	MOVQ table+0(FP), R10
	MOVQ grains+8(FP), SI
	MOVQ block+16(FP), R9
	MOVQ found+40(FP), DI
	VPBROADCASTQ nibbles<>(SB), Z31
	VPXORQ Z4, Z4, Z4
	VPXORQ Z5, Z5, Z5

pair:
	SUBQ   $2, SI
	JLT    rest
	LOOK16(0, 0, Z8, Z9)
	LOOK16(64, 128, Z14, Z15)
	VPADDB Z9, Z8, Z8
	VPADDB Z15, Z14, Z14
	VPADDB Z14, Z8, Z8
	VPSRLW $8, Z8, Z12
	VPADDW Z8, Z4, Z4
	VPADDW Z12, Z5, Z5
	ADDQ   $128, R9
	ADDQ   $256, R10
	JMP    pair

rest:
	ADDQ   $2, SI
	JZ     done
	LOOK16(0, 0, Z8, Z9)
	VPADDB Z9, Z8, Z8
	VPSRLW $8, Z8, Z12
	VPADDW Z8, Z4, Z4
	VPADDW Z12, Z5, Z5
	ADDQ   $64, R9

done:
	// Even bytes are what remains of all without the odd ones.
	VPSLLW     $8, Z5, Z12
	VPSUBW     Z12, Z4, Z4
	VSHUFI64X2 $0x44, Z5, Z4, Z12
	VSHUFI64X2 $0xee, Z5, Z4, Z13
	VPADDW     Z13, Z12, Z12
	VSHUFI64X2 $0x88, Z12, Z12, Z13
	VSHUFI64X2 $0xdd, Z12, Z12, Z15
	VPADDW     Z15, Z13, Z13
	VPMOVZXWD  Y13, Z4
	VCVTDQ2PS  Z4, Z4
	VBROADCASTSS delta+24(FP), Z1
	VBROADCASTSS shift+28(FP), Z2
	VBROADCASTSS base+32(FP), Z0
	VBROADCASTSS bar+36(FP), Z3
	VFMADD213PS Z2, Z1, Z4
	VPMOVZXWD  (R9), Z6
	VPMOVZXWD  32(R9), Z8
	VPSLLD     $16, Z6, Z6
	VPSLLD     $16, Z8, Z8
	VADDPS     Z0, Z6, Z6
	VFMADD213PS Z6, Z8, Z4
	VCMPPS     $1, Z3, Z4, K1
	VCOMPRESSPS.Z Z4, K1, Z6
	VMOVDQU32  64(R9), Z8
	VPCOMPRESSD.Z Z8, K1, Z8
	KMOVW      K1, AX
	POPCNTL    AX, AX
	VMOVUPS    Z6, (DI)
	VMOVDQU32  Z8, 64(DI)
	MOVQ       AX, ret+48(FP)
	VZEROUPPER
	RET

// Half of a grain: 4 groups of 16 rows.
#define LOOK8(off, tables) \
	VMOVDQU off(R9), Y10; \
	VPAND   Y15, Y10, Y12; \
	VPSRLW  $4, Y10, Y10; \
	VPAND   Y15, Y10, Y10; \
	VMOVDQU tables(R10), Y11; \
	VPSHUFB Y12, Y11, Y8; \
	VMOVDQU (tables+64)(R10), Y11; \
	VPSHUFB Y10, Y11, Y9

// func sumBlockAVX2(table *uint8, grains int, block unsafe.Pointer, sums *[16]uint32)
TEXT ·sumBlockAVX2(SB), NOSPLIT, $0-32
	MOVQ table+0(FP), R10
	MOVQ grains+8(FP), SI
	MOVQ block+16(FP), R9
	MOVQ sums+24(FP), DI
	VPBROADCASTQ nibbles<>(SB), Y15
	VPXOR Y4, Y4, Y4
	VPXOR Y5, Y5, Y5

grain:
	SUBQ    $1, SI
	JLT     done
	LOOK8(0, 0)
	VPADDB  Y9, Y8, Y13
	LOOK8(32, 32)
	VPADDB  Y9, Y8, Y8
	VPADDB  Y13, Y8, Y8
	VPSRLW  $8, Y8, Y12
	VPADDW  Y8, Y4, Y4
	VPADDW  Y12, Y5, Y5
	ADDQ    $64, R9
	ADDQ    $128, R10
	JMP     grain

done:
	VPSLLW       $8, Y5, Y12
	VPSUBW       Y12, Y4, Y4
	VEXTRACTI128 $1, Y4, X6
	VPADDW       X6, X4, X4
	VEXTRACTI128 $1, Y5, X7
	VPADDW       X7, X5, X5
	VPMOVZXWD    X4, Y4
	VPMOVZXWD    X5, Y5
	VMOVDQU      Y4, (DI)
	VMOVDQU      Y5, 32(DI)
	VZEROUPPER
	RET

// func blockTablesAVX512(v *float32, groups int, scale float32, table *uint8)
TEXT ·blockTablesAVX512(SB), NOSPLIT, $0-32
	MOVQ v+0(FP), SI
	MOVQ groups+8(FP), CX
	VBROADCASTSS scale+16(FP), Z20
	MOVQ table+24(FP), DI
	VBROADCASTSS halfMost<>(SB), Z21
	VPXORQ Z22, Z22, Z22
	VSUBPS Z20, Z22, Z22
	MOVL   $0xaaaa, AX
	KMOVW  AX, K1
	MOVL   $0xcccc, AX
	KMOVW  AX, K2
	MOVL   $0xf0f0, AX
	KMOVW  AX, K3
	MOVL   $0xff00, AX
	KMOVW  AX, K4
	VMOVAPS Z22, Z0
	VMOVAPS Z22, Z1
	VMOVAPS Z22, Z2
	VMOVAPS Z22, Z3
	VMOVAPS Z20, K1, Z0
	VMOVAPS Z20, K2, Z1
	VMOVAPS Z20, K3, Z2
	VMOVAPS Z20, K4, Z3

group:
	VMOVAPS          Z21, Z4
	VFMADD231PS.BCST (SI), Z0, Z4
	VFMADD231PS.BCST 4(SI), Z1, Z4
	VFMADD231PS.BCST 8(SI), Z2, Z4
	VFMADD231PS.BCST 12(SI), Z3, Z4
	VCVTPS2DQ        Z4, Z4
	VPMOVDB          Z4, X4
	VMOVDQU          X4, (DI)
	ADDQ             $16, SI
	ADDQ             $16, DI
	SUBQ             $1, CX
	JGT              group
	VZEROUPPER
	RET

// func prefetchLines(p unsafe.Pointer, n int)
TEXT ·prefetchLines(SB), NOSPLIT, $0-16
	MOVQ p+0(FP), AX
	MOVQ n+8(FP), CX

line:
	PREFETCHT0 (AX)
	ADDQ       $64, AX
	SUBQ       $1, CX
	JGT        line
	RET

DATA lowestCost<>+0(SB)/4, $0xff800000
GLOBL lowestCost<>(SB), RODATA|NOPTR, $4
DATA highestCost<>+0(SB)/4, $0x7f800000
GLOBL highestCost<>(SB), RODATA|NOPTR, $4
DATA poolDone<>+0(SB)/4, $0x80000000
GLOBL poolDone<>(SB), RODATA|NOPTR, $4

// PUT puts the cost Z20 and the number Z21 among sixteen costs in order; those before them
// are pcost and pid. A lane whose cost is greater takes that of the lane before, or the new
// one.
#define PUT(cost, id, pcost, pid) \
	VCMPPS    $0x0e, Z20, cost, K1; \
	VALIGND   $15, pcost, cost, Z22; \
	VALIGND   $15, pid, id, K1, id; \
	VCMPPS    $2, Z20, Z22, K1, K2; \
	VMAXPS    Z20, Z22, K1, cost; \
	VMOVDQA32 Z21, K2, id

// NEXT loads the next one. The cost of one that is in the set becomes NaN, which is
// greater than none.
#define NEXT() \
	MOVL (R10), AX; \
	MOVL (R9), BX; \
	MOVL AX, SI; \
	SHRL $6, SI; \
	MOVQ (R11)(SI*8), SI; \
	BTQ  AX, SI; \
	SBBL DX, DX; \
	ORL  DX, BX; \
	VPBROADCASTD BX, Z20; \
	VPBROADCASTD AX, Z21; \
	ADDQ $4, R9; \
	ADDQ $4, R10

#define CUT(at, cost, id) \
	KMOVW     (512+at)(R8), K1; \
	VMOVAPS   Z18, K1, cost; \
	VMOVDQA32 Z19, K1, id

#define ENTER() \
	MOVQ p+0(FP), R8; \
	MOVQ costs+8(FP), R9; \
	MOVQ ids+16(FP), R10; \
	MOVQ n+24(FP), CX; \
	MOVQ set+32(FP), R11; \
	VBROADCASTSS highestCost<>(SB), Z18; \
	VPBROADCASTD poolDone<>(SB), Z19; \
	VBROADCASTSS lowestCost<>(SB), Z17; \
	VPXORQ Z16, Z16, Z16

// func absorb32AVX512(p *Pool, costs *float32, ids *uint32, n int, set *uint64) uint64
TEXT ·absorb32AVX512(SB), NOSPLIT, $0-48
	ENTER()
	VMOVUPS   (R8), Z0
	VMOVUPS   64(R8), Z1
	VMOVDQU32 256(R8), Z4
	VMOVDQU32 320(R8), Z5

more:
	NEXT()
	PUT(Z1, Z5, Z0, Z4)
	PUT(Z0, Z4, Z17, Z16)
	SUBQ $1, CX
	JGT  more
	CUT(0, Z0, Z4)
	CUT(2, Z1, Z5)
	VMOVUPS   Z0, (R8)
	VMOVUPS   Z1, 64(R8)
	VMOVDQU32 Z4, 256(R8)
	VMOVDQU32 Z5, 320(R8)
	VPMOVD2M  Z4, K1
	VPMOVD2M  Z5, K2
	KUNPCKWD  K1, K2, K1
	KMOVD     K1, AX
	NOTL      AX
	MOVQ      AX, ret+40(FP)
	VZEROUPPER
	RET

// func absorb64AVX512(p *Pool, costs *float32, ids *uint32, n int, set *uint64) uint64
TEXT ·absorb64AVX512(SB), NOSPLIT, $0-48
	ENTER()
	VMOVUPS   (R8), Z0
	VMOVUPS   64(R8), Z1
	VMOVUPS   128(R8), Z2
	VMOVUPS   192(R8), Z3
	VMOVDQU32 256(R8), Z4
	VMOVDQU32 320(R8), Z5
	VMOVDQU32 384(R8), Z6
	VMOVDQU32 448(R8), Z7

more:
	NEXT()
	PUT(Z3, Z7, Z2, Z6)
	PUT(Z2, Z6, Z1, Z5)
	PUT(Z1, Z5, Z0, Z4)
	PUT(Z0, Z4, Z17, Z16)
	SUBQ $1, CX
	JGT  more
	CUT(0, Z0, Z4)
	CUT(2, Z1, Z5)
	CUT(4, Z2, Z6)
	CUT(6, Z3, Z7)
	VMOVUPS   Z0, (R8)
	VMOVUPS   Z1, 64(R8)
	VMOVUPS   Z2, 128(R8)
	VMOVUPS   Z3, 192(R8)
	VMOVDQU32 Z4, 256(R8)
	VMOVDQU32 Z5, 320(R8)
	VMOVDQU32 Z6, 384(R8)
	VMOVDQU32 Z7, 448(R8)
	VPMOVD2M  Z4, K1
	VPMOVD2M  Z5, K2
	KUNPCKWD  K1, K2, K1
	VPMOVD2M  Z6, K2
	VPMOVD2M  Z7, K3
	KUNPCKWD  K2, K3, K2
	KUNPCKDQ  K1, K2, K1
	KMOVQ     K1, AX
	NOTQ      AX
	MOVQ      AX, ret+40(FP)
	VZEROUPPER
	RET

// X0 = sum of the lanes of Z0
#define SUM_LANES() \
	VEXTRACTF64X4 $1, Z0, Y1; \
	VADDPS        Y1, Y0, Y0; \
	VEXTRACTF128  $1, Y0, X1; \
	VADDPS        X1, X0, X0; \
	VHADDPS       X0, X0, X0; \
	VHADDPS       X0, X0, X0

DATA magnitude<>+0(SB)/4, $0x7fffffff
GLOBL magnitude<>(SB), RODATA|NOPTR, $4

// func signsAVX512(x, c *float32, n int, words *uint16, sums *[3]float32)
TEXT ·signsAVX512(SB), NOSPLIT, $0-40
	MOVQ   x+0(FP), SI
	MOVQ   c+8(FP), DI
	MOVQ   n+16(FP), CX
	MOVQ   words+24(FP), R8
	MOVQ   sums+32(FP), R9
	VPXORQ Z10, Z10, Z10
	VPXORQ Z11, Z11, Z11
	VPXORQ Z12, Z12, Z12
	VPXORQ Z13, Z13, Z13
	VBROADCASTSS magnitude<>(SB), Z20

more:
	VMOVUPS     (SI), Z4
	VMOVUPS     (DI), Z5
	VSUBPS      Z5, Z4, Z4
	VCMPPS      $0x0e, Z13, Z4, K1 // greater than 0
	KMOVW       K1, (R8)
	VFMADD231PS Z4, Z4, Z10
	VPANDD      Z20, Z4, Z4
	VADDPS      Z4, Z11, Z11
	VSUBPS      Z5, Z12, Z6
	VADDPS      Z5, Z12, K1, Z6
	VMOVAPS     Z6, Z12
	ADDQ        $64, SI
	ADDQ        $64, DI
	ADDQ        $2, R8
	SUBQ        $16, CX
	JGT         more
	VMOVAPS     Z10, Z0
	SUM_LANES()
	VMOVSS      X0, (R9)
	VMOVAPS     Z11, Z0
	SUM_LANES()
	VMOVSS      X0, 4(R9)
	VMOVAPS     Z12, Z0
	SUM_LANES()
	VMOVSS      X0, 8(R9)
	VZEROUPPER
	RET
