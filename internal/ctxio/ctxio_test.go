package ctxio

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
)

func TestEndsWithTheContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var out bytes.Buffer
	r, w := Reader(ctx, strings.NewReader("green tea")), Writer(ctx, &out)
	if n, err := io.CopyN(w, r, 5); n != 5 || err != nil || out.String() != "green" {
		t.Fatalf("copied %d bytes, %q, %v", n, out.String(), err)
	}
	cancel()
	if n, err := r.Read(make([]byte, 5)); n != 0 || !errors.Is(err, context.Canceled) {
		t.Errorf("read %d bytes, %v", n, err)
	}
	if n, err := w.Write([]byte("tea")); n != 0 || !errors.Is(err, context.Canceled) || out.Len() != 5 {
		t.Errorf("wrote %d bytes, %v", n, err)
	}
}
