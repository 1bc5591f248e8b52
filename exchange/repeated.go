package exchange

import (
	"bytes"
	"encoding/json"
)

// Repeated adds "repeated":true to an answer, which says that the request was done before: to its
// JSON object, or to that of its last line. Any other answer stays as it is.
func Repeated(answer []byte) []byte {
	whole := bytes.TrimRight(answer, " \r\n")
	object := whole
	if !isObject(object) {
		object = whole[bytes.LastIndexByte(whole, '\n')+1:]
	}
	var keys map[string]json.RawMessage
	if !isObject(object) || json.Unmarshal(object, &keys) != nil || keys["repeated"] != nil {
		return answer
	}
	mark := `"repeated":true`
	if len(keys) > 0 {
		mark = "," + mark
	}
	at := len(whole) - 1
	for at > 0 && bytes.IndexByte([]byte(" \t\r\n"), whole[at-1]) >= 0 {
		at--
	}
	return bytes.Join([][]byte{whole[:at], []byte(mark), answer[at:]}, nil)
}

func isObject(b []byte) bool {
	return len(b) > 1 && b[0] == '{' && b[len(b)-1] == '}' && json.Valid(b)
}
