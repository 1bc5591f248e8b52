package sessions

import "encoding/json"

// The JSON of messages, markers and sessions is that of an export's lines: what one program
// marshals, another one imports, and `session save` takes. A message is read from any form, too.

// MarshalJSON writes the line of the message.
func (m Message) MarshalJSON() ([]byte, error) { return json.Marshal(NewMessageLine(&m)) }

// UnmarshalJSON reads a [MessageLine], or a message of any form. Keys and parts that no form has are
// kept.
func (m *Message) UnmarshalJSON(b []byte) error {
	var l MessageLine
	if err := json.Unmarshal(b, &l); err != nil {
		return err
	}
	*m = l.Message()
	return nil
}

// MarshalJSON writes the line of the marker.
func (m Marker) MarshalJSON() ([]byte, error) { return json.Marshal(NewMarkerLine(&m)) }

// UnmarshalJSON reads a [MarkerLine].
func (m *Marker) UnmarshalJSON(b []byte) error {
	var l MarkerLine
	err := json.Unmarshal(b, &l)
	if err == nil {
		*m = l.Marker()
	}
	return err
}

// MarshalJSON writes the message or the marker that the item is.
func (i Item) MarshalJSON() ([]byte, error) {
	if i.Marker != nil {
		return json.Marshal(i.Marker)
	}
	return json.Marshal(i.Message)
}

// UnmarshalJSON reads a marker where the type says so, else a message.
func (i *Item) UnmarshalJSON(b []byte) error {
	var of struct {
		Type string `json:"type"`
	}
	if err := json.Unmarshal(b, &of); err != nil {
		return err
	}
	*i = Item{}
	if of.Type == TypeMarker {
		i.Marker = &Marker{}
		return i.Marker.UnmarshalJSON(b)
	}
	i.Message = &Message{}
	return i.Message.UnmarshalJSON(b)
}

// MarshalJSON writes the line of the session.
func (s Session) MarshalJSON() ([]byte, error) { return json.Marshal(NewSessionLine(s)) }
