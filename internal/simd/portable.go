package simd

import "unsafe"

// The offset of row codes: code 128 is zero.
const codeZero = 128

func dotGo(a, b []float32) float32 {
	b = b[:len(a)]
	var s0, s1, s2, s3 float32
	for len(a) >= 4 && len(b) >= 4 {
		s0 += a[0] * b[0]
		s1 += a[1] * b[1]
		s2 += a[2] * b[2]
		s3 += a[3] * b[3]
		a, b = a[4:], b[4:]
	}
	for i, v := range a {
		s0 += v * b[i]
	}
	return (s0 + s1) + (s2 + s3)
}

func squaredL2Go(a, b []float32) float32 {
	b = b[:len(a)]
	var s0, s1, s2, s3 float32
	for len(a) >= 4 && len(b) >= 4 {
		d0, d1, d2, d3 := a[0]-b[0], a[1]-b[1], a[2]-b[2], a[3]-b[3]
		s0 += d0 * d0
		s1 += d1 * d1
		s2 += d2 * d2
		s3 += d3 * d3
		a, b = a[4:], b[4:]
	}
	for i, v := range a {
		d := v - b[i]
		s0 += d * d
	}
	return (s0 + s1) + (s2 + s3)
}

func dotCodesGo(q []float32, codes []uint8) float32 {
	codes = codes[:len(q)]
	var s0, s1, s2, s3 float32
	for len(q) >= 4 && len(codes) >= 4 {
		s0 += q[0] * float32(int32(codes[0])-codeZero)
		s1 += q[1] * float32(int32(codes[1])-codeZero)
		s2 += q[2] * float32(int32(codes[2])-codeZero)
		s3 += q[3] * float32(int32(codes[3])-codeZero)
		q, codes = q[4:], codes[4:]
	}
	for i, v := range q {
		s0 += v * float32(int32(codes[i])-codeZero)
	}
	return (s0 + s1) + (s2 + s3)
}

func dot8Go(q []int8, codes []uint8) int32 {
	codes = codes[:len(q)]
	var s0, s1, s2, s3 int32
	for len(q) >= 4 && len(codes) >= 4 {
		s0 += int32(q[0]) * (int32(codes[0]) - codeZero)
		s1 += int32(q[1]) * (int32(codes[1]) - codeZero)
		s2 += int32(q[2]) * (int32(codes[2]) - codeZero)
		s3 += int32(q[3]) * (int32(codes[3]) - codeZero)
		q, codes = q[4:], codes[4:]
	}
	for i, v := range q {
		s0 += int32(v) * (int32(codes[i]) - codeZero)
	}
	return s0 + s1 + s2 + s3
}

func dotRowsGo(q []float32, rows *Rows, ids []uint32, out []float32) {
	for i, id := range ids {
		out[i] = dotGo(q, unsafe.Slice((*float32)(rows.At(id)), len(q)))
	}
}

func squaredL2RowsGo(q []float32, rows *Rows, ids []uint32, out []float32) {
	for i, id := range ids {
		out[i] = squaredL2Go(q, unsafe.Slice((*float32)(rows.At(id)), len(q)))
	}
}

func dotCodesRowsGo(q []float32, rows *Rows, ids []uint32, out []float32) {
	for i, id := range ids {
		scale, _, codes := codeRow(rows.At(id), len(q))
		out[i] = dotCodesGo(q, codes) * scale
	}
}

func dot8RowsGo(q *Query8, rows *Rows, ids []uint32, out []float32) {
	for i, id := range ids {
		scale, bias, codes := codeRow(rows.At(id), len(q.Codes))
		// The conversion keeps processors that could from fusing the sum.
		out[i] = float32(float32(dot8Go(q.Codes, codes))*(scale*q.Scale)) + bias
	}
}

func codeRow(row unsafe.Pointer, dim int) (scale, bias float32, codes []uint8) {
	head := (*[2]float32)(row)
	return head[0], head[1], unsafe.Slice((*uint8)(unsafe.Add(row, CodeHeader)), dim)
}
