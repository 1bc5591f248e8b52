package httpjson

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/url"
	"strings"
	"testing"
)

// TestKeyInAnyCoding: a key that comes back in an error is not shown, however it is coded.
func TestKeyInAnyCoding(t *testing.T) {
	const key = `sk-secret/0123+4567"89<&é`
	quoted, err := json.Marshal(key)
	if err != nil {
		t.Fatal(err)
	}
	s := &Service{Config: Config{Key: key}}
	for _, form := range []string{
		key, url.QueryEscape(key), url.PathEscape(key), strings.ToLower(url.QueryEscape(key)), strings.Trim(string(quoted), `"`),
		hex.EncodeToString([]byte(key)), strings.ToUpper(hex.EncodeToString([]byte(key))),
		base64.StdEncoding.EncodeToString([]byte(key)), base64.URLEncoding.EncodeToString([]byte(key)),
		base64.StdEncoding.EncodeToString([]byte("Bearer " + key)), base64.StdEncoding.EncodeToString([]byte("user:" + key + ":more")),
		base64.RawURLEncoding.EncodeToString([]byte("ab" + key)),
	} {
		got := s.hide("refused: " + form + ".")
		if !strings.Contains(got, "[key]") || len(got) > len("refused: .")+len("[key]")+14 {
			t.Errorf("%s is shown as %s", form, got)
		}
	}
	if got := (&Service{Config: Config{Key: "k"}}).hide("a bank, 6b"); got != "a ban[key], 6b" {
		t.Errorf("a short key: %s", got)
	}
}
