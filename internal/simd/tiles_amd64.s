#include "textflag.h"

// Kernels of tiles share these registers:
//
//	R8 table   R9 components   R10 addresses of tiles   R11 tiles left
//	R12 masks   R13 keys   SI bits of the tile   AX cursor in the table   CX bytes left

DATA low4<>+0(SB)/8, $0x0f0f0f0f0f0f0f0f
GLOBL low4<>(SB), RODATA|NOPTR, $8

#define TILE_ARGS() \
	MOVQ table+0(FP), R8; \
	MOVQ dim+8(FP), R9; \
	MOVQ tiles+16(FP), R10; \
	MOVQ n+24(FP), R11; \
	MOVQ masks+40(FP), R12; \
	MOVQ out+48(FP), R13

// What follows the bits of the tile that is fetched.
#define FETCH_STATS() \
	PREFETCHT0 (DX); \
	PREFETCHT0 64(DX); \
	PREFETCHT0 128(DX); \
	PREFETCHT0 192(DX); \
	PREFETCHT0 256(DX); \
	PREFETCHT0 320(DX); \
	PREFETCHT0 384(DX); \
	PREFETCHT0 448(DX); \
	PREFETCHT0 512(DX); \
	PREFETCHT0 576(DX)

// The 16 words of odd bytes and, in even, those of even ones less them 256 times are
// what a look-up has added: even = even - odd<<8.
#define EVEN_512(even, odd, tmp) \
	VPSLLW $8, odd, tmp; \
	VPSUBW tmp, even, even

// Adds up the four lanes of a register, which are of other components of the same rows.
#define FOLD_512(z, y, x, ytmp, xtmp) \
	VEXTRACTI64X4 $1, z, ytmp; \
	VPADDW        ytmp, y, y; \
	VEXTRACTI128  $1, y, xtmp; \
	VPADDW        xtmp, x, x

// z = keys of 16 rows, whose sums are in the words of even and odd, and their mask.
#define KEYS_512(even, odd, x, y, z, tmp, xtmp, row, mask) \
	VPUNPCKLWD  odd, even, x; \
	VPUNPCKHWD  odd, even, xtmp; \
	VINSERTI128 $1, xtmp, y, y; \
	VPMOVZXWD   y, z; \
	VCVTDQ2PS   z, z; \
	VMULPS      Z21, z, z; \
	VADDPS      Z22, z, z; \
	VMULPS      128+row(SI), z, z; \
	VADDPS      row(SI), z, z; \
	VMULPS      256+row(SI), Z23, tmp; \
	VADDPS      tmp, z, z; \
	VMULPS      384+row(SI), Z25, tmp; \
	VADDPS      tmp, z, z; \
	VMOVUPS     z, row(R13); \
	VCMPPS      $13, Z24, z, mask

// func scanTilesAVX512(table *uint8, dim int, tiles *unsafe.Pointer, n int, bar *TileBar, masks *uint32, out *float32, step float32)
TEXT ·scanTilesAVX512(SB), NOSPLIT, $0-60
	TILE_ARGS()
	MOVQ         bar+32(FP), BX
	VBROADCASTSS step+56(FP), Z21
	VBROADCASTSS (BX), Z22
	VBROADCASTSS 4(BX), Z23
	VBROADCASTSS 8(BX), Z25
	VBROADCASTSS 12(BX), Z24
	VPBROADCASTQ low4<>(SB), Z20

tile: // the next one is fetched meanwhile: tiles lie anywhere in memory
	MOVQ    (R10), SI
	MOVQ    SI, DX
	CMPQ    R11, $1
	JEQ     last
	MOVQ    8(R10), DX

last:
	MOVQ   R8, AX
	MOVQ   R9, CX
	VPXORQ Z0, Z0, Z0
	VPXORQ Z1, Z1, Z1
	VPXORQ Z2, Z2, Z2
	VPXORQ Z3, Z3, Z3

chunk: // 16 components of 32 rows
	PREFETCHT0 (DX)
	VMOVDQU64 (SI), Z4
	VMOVDQU64 (AX), Z5
	VPSRLW    $4, Z4, Z6
	VPANDQ    Z20, Z4, Z4
	VPANDQ    Z20, Z6, Z6
	VPSHUFB   Z4, Z5, Z7
	VPSHUFB   Z6, Z5, Z8
	VPSRLW    $8, Z7, Z9
	VPSRLW    $8, Z8, Z10
	VPADDW    Z7, Z0, Z0
	VPADDW    Z9, Z1, Z1
	VPADDW    Z8, Z2, Z2
	VPADDW    Z10, Z3, Z3
	ADDQ      $64, SI
	ADDQ      $64, AX
	ADDQ      $64, DX
	SUBQ      $16, CX
	JGT       chunk

	FETCH_STATS()
	EVEN_512(Z0, Z1, Z9)
	EVEN_512(Z2, Z3, Z10)
	FOLD_512(Z0, Y0, X0, Y4, X4)
	FOLD_512(Z1, Y1, X1, Y5, X5)
	FOLD_512(Z2, Y2, X2, Y6, X6)
	FOLD_512(Z3, Y3, X3, Y7, X7)
	KEYS_512(X0, X1, X4, Y4, Z4, Z5, X5, 0, K1)
	KEYS_512(X2, X3, X6, Y6, Z6, Z7, X7, 64, K2)
	KMOVW K1, AX
	KMOVW K2, BX
	SHLL  $16, BX
	ORL   BX, AX
	MOVL  AX, (R12)
	ADDQ  $4, R12
	ADDQ  $128, R13
	ADDQ  $8, R10
	DECQ  R11
	JNZ   tile
	VZEROUPPER
	RET

// y = keys of 8 rows, whose sums are in the words of x, and their mask in reg.
#define KEYS_256(x, y, row, reg) \
	VPMOVZXWD x, y; \
	VCVTDQ2PS y, y; \
	VMULPS    Y11, y, y; \
	VADDPS    Y12, y, y; \
	VMULPS    128+row(SI), y, y; \
	VADDPS    row(SI), y, y; \
	VMULPS    256+row(SI), Y13, Y9; \
	VADDPS    Y9, y, y; \
	VMULPS    384+row(SI), Y14, Y9; \
	VADDPS    Y9, y, y; \
	VMOVUPS   y, row(R13); \
	VCMPPS    $13, Y10, y, y; \
	VMOVMSKPS y, reg

// 8 components of 32 rows
#define LOOK_UP_256(at) \
	VMOVDQU at(SI), Y4; \
	VMOVDQU at(AX), Y5; \
	VPSRLW  $4, Y4, Y6; \
	VPAND   Y15, Y4, Y4; \
	VPAND   Y15, Y6, Y6; \
	VPSHUFB Y4, Y5, Y7; \
	VPSHUFB Y6, Y5, Y8; \
	VPSRLW  $8, Y7, Y9; \
	VPSRLW  $8, Y8, Y10; \
	VPADDW  Y7, Y0, Y0; \
	VPADDW  Y9, Y1, Y1; \
	VPADDW  Y8, Y2, Y2; \
	VPADDW  Y10, Y3, Y3

#define FOLD_256(y, x, xtmp) \
	VEXTRACTI128 $1, y, xtmp; \
	VPADDW       xtmp, x, x

// func scanTilesAVX2(table *uint8, dim int, tiles *unsafe.Pointer, n int, bar *TileBar, masks *uint32, out *float32, step float32)
TEXT ·scanTilesAVX2(SB), NOSPLIT, $0-60
	TILE_ARGS()
	MOVQ         bar+32(FP), BX
	VBROADCASTSS step+56(FP), Y11
	VBROADCASTSS (BX), Y12
	VBROADCASTSS 4(BX), Y13
	VBROADCASTSS 8(BX), Y14
	VPBROADCASTQ low4<>(SB), Y15

tile: // the next one is fetched meanwhile
	MOVQ  (R10), SI
	MOVQ  SI, DX
	CMPQ  R11, $1
	JEQ   last
	MOVQ  8(R10), DX

last:
	MOVQ  R8, AX
	MOVQ  R9, CX
	VPXOR Y0, Y0, Y0
	VPXOR Y1, Y1, Y1
	VPXOR Y2, Y2, Y2
	VPXOR Y3, Y3, Y3

chunk: // 16 components of 32 rows
	PREFETCHT0 (DX)
	LOOK_UP_256(0)
	LOOK_UP_256(32)
	ADDQ $64, SI
	ADDQ $64, AX
	ADDQ $64, DX
	SUBQ $16, CX
	JGT  chunk

	FETCH_STATS()
	VPSLLW     $8, Y1, Y9
	VPSUBW     Y9, Y0, Y0
	VPSLLW     $8, Y3, Y10
	VPSUBW     Y10, Y2, Y2
	FOLD_256(Y0, X0, X4)
	FOLD_256(Y1, X1, X5)
	FOLD_256(Y2, X2, X6)
	FOLD_256(Y3, X3, X7)
	MOVQ         bar+32(FP), BX
	VBROADCASTSS 12(BX), Y10
	VPUNPCKLWD X1, X0, X4
	VPUNPCKHWD X1, X0, X5
	VPUNPCKLWD X3, X2, X6
	VPUNPCKHWD X3, X2, X7
	KEYS_256(X4, Y4, 0, AX)
	KEYS_256(X5, Y5, 32, BX)
	SHLL       $8, BX
	ORL        BX, AX
	KEYS_256(X6, Y6, 64, BX)
	SHLL       $16, BX
	ORL        BX, AX
	KEYS_256(X7, Y7, 96, BX)
	SHLL       $24, BX
	ORL        BX, AX
	MOVL       AX, (R12)
	ADDQ       $4, R12
	ADDQ       $128, R13
	ADDQ       $8, R10
	DECQ       R11
	JNZ        tile
	VZEROUPPER
	RET

// func atLeastAVX512(keys *float32, floor float32, masks *uint32, n int)
TEXT ·atLeastAVX512(SB), NOSPLIT, $0-32
	MOVQ         keys+0(FP), SI
	VBROADCASTSS floor+8(FP), Z2
	MOVQ         masks+16(FP), R12
	MOVQ         n+24(FP), R11

tile:
	VMOVUPS (SI), Z0
	VMOVUPS 64(SI), Z1
	VCMPPS  $13, Z2, Z0, K1
	VCMPPS  $13, Z2, Z1, K2
	KMOVW   K1, AX
	KMOVW   K2, BX
	SHLL    $16, BX
	ORL     BX, AX
	MOVL    AX, (R12)
	ADDQ    $128, SI
	ADDQ    $4, R12
	DECQ    R11
	JNZ     tile
	VZEROUPPER
	RET

// func atLeastAVX2(keys *float32, floor float32, masks *uint32, n int)
TEXT ·atLeastAVX2(SB), NOSPLIT, $0-32
	MOVQ         keys+0(FP), SI
	VBROADCASTSS floor+8(FP), Y4
	MOVQ         masks+16(FP), R12
	MOVQ         n+24(FP), R11

tile:
	VMOVUPS   (SI), Y0
	VMOVUPS   32(SI), Y1
	VMOVUPS   64(SI), Y2
	VMOVUPS   96(SI), Y3
	VCMPPS    $13, Y4, Y0, Y0
	VCMPPS    $13, Y4, Y1, Y1
	VCMPPS    $13, Y4, Y2, Y2
	VCMPPS    $13, Y4, Y3, Y3
	VMOVMSKPS Y0, AX
	VMOVMSKPS Y1, BX
	VMOVMSKPS Y2, CX
	VMOVMSKPS Y3, DX
	SHLL      $8, BX
	SHLL      $16, CX
	SHLL      $24, DX
	ORL       BX, AX
	ORL       CX, AX
	ORL       DX, AX
	MOVL      AX, (R12)
	ADDQ      $128, SI
	ADDQ      $4, R12
	DECQ      R11
	JNZ       tile
	VZEROUPPER
	RET
