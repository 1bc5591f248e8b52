package move

import (
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"time"
	"unicode/utf8"

	"github.com/tinylib/msgp/msgp"
)

// maxPacked bounds how deep values of MessagePack nest.
const maxPacked = 64

var errPacked = errors.New("it is no MessagePack of at most 64 levels, with texts of UTF-8 and keys that differ")

// readPacked reads a value of MessagePack as JSON has it, and returns the bytes behind it. Bytes
// are a text in hexadecimal, and so are extensions, with their code and type, but for times.
func readPacked(b []byte, depth int) (v any, rest []byte, err error) {
	if depth > maxPacked {
		return nil, nil, errPacked
	}
	switch msgp.NextType(b) {
	case msgp.MapType:
		return packedMap(b, depth)
	case msgp.ArrayType:
		n, b, err := msgp.ReadArrayHeaderBytes(b)
		list := []any{}
		for range n {
			if err != nil {
				break
			}
			v, b, err = readPacked(b, depth+1)
			list = append(list, v)
		}
		return list, b, err
	case msgp.TimeType, msgp.ExtensionType, msgp.Complex64Type, msgp.Complex128Type:
		// The library has times of the type 5, too, which programs use as they like.
		if t, rest, err := msgp.ReadTimeUTCBytes(b); err == nil && b[2] != msgp.TimeExtension {
			return t.Format(time.RFC3339Nano), rest, nil
		}
		rest, err := msgp.Skip(b)
		if err != nil {
			return nil, nil, err
		}
		return hex.EncodeToString(b[:len(b)-len(rest)]), rest, nil
	}
	if v, rest, err = msgp.ReadIntfBytes(b); err != nil {
		return nil, nil, err
	}
	switch x := v.(type) {
	case string:
		if !utf8.ValidString(x) {
			return nil, nil, errPacked
		}
	case []byte:
		v = hex.EncodeToString(x)
	case float32:
		v = packedFloat(float64(x))
	case float64:
		v = packedFloat(x)
	}
	return v, rest, nil
}

// packedFloat is a number, or the name of what is none and has no place in JSON.
func packedFloat(f float64) any {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return fmt.Sprint(f)
	}
	return f
}

func packedMap(b []byte, depth int) (any, []byte, error) {
	n, b, err := msgp.ReadMapHeaderBytes(b)
	out := map[string]any{}
	for range n {
		if err != nil {
			break
		}
		var key any
		if key, b, err = readPacked(b, depth+1); err != nil {
			break
		}
		name := fmt.Sprint(key)
		if _, twice := out[name]; twice {
			return nil, nil, errPacked
		}
		out[name], b, err = readPacked(b, depth+1)
	}
	return out, b, err
}
