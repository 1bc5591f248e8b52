package invindex

import (
	"encoding/binary"
	"fmt"
)

// Term is a word of a document.
type Term struct {
	// Text is the term.
	Text string
	Freq uint32 // how often, weighted by the field it is in; at least 1
}

// Value is a filter value of a document: a field, and an encoded exact value.
type Value struct {
	// Field is the number of the field, Key its value as a string that sorts.
	Field uint16
	Key   string
}

// Doc is what the index holds of a document.
type Doc struct {
	Terms  []Term // in any order; a Text that comes again does not count
	Length uint32 // weighted number of words, the length that BM25 normalises by
	Values []Value
	// Numbers are for FindRange. A field may come more than once; one in the range is
	// then enough.
	Numbers []Number
	// Numbered says that Numbers are all that the document has. Without it FindRange
	// does not answer for the chunk of the document.
	Numbered bool
}

// The first byte of a forward record: without numbers, and with. In those that were
// written before, the terms ascend: to sort them took longer than to write the record.
const (
	sortedVersion         = 1
	sortedNumberedVersion = 2
	recordVersion         = 3
	numberedVersion       = 4
)

// A term's header byte: bits 0–1 hold how many bytes it shares with the term
// before it (at most 3; 0 where the terms are not sorted), bits 2–5 the length of the
// rest, bits 6–7 the frequency. The highest length and the frequency 0 say that a
// uvarint follows.
const (
	maxShared    = 3
	longSuffix   = 15
	maxShortFreq = 3
)

// AppendDoc appends the index's part of a forward record: what [Index.Add] needs
// when a database is opened again. About 7 bytes a term of English.
func AppendDoc(dst []byte, d *Doc) []byte {
	if d.Numbered {
		dst = append(dst, numberedVersion)
	} else {
		dst = append(dst, recordVersion)
	}
	dst = binary.AppendUvarint(dst, uint64(d.Length))
	dst = binary.AppendUvarint(dst, uint64(len(d.Terms)))
	for _, t := range d.Terms {
		dst = appendTerm(dst, t)
	}
	dst = binary.AppendUvarint(dst, uint64(len(d.Values)))
	for _, v := range d.Values {
		dst = binary.AppendUvarint(dst, uint64(v.Field))
		dst = binary.AppendUvarint(dst, uint64(len(v.Key)))
		dst = append(dst, v.Key...)
	}
	if d.Numbered {
		dst = binary.AppendUvarint(dst, uint64(len(d.Numbers)))
		for _, n := range d.Numbers {
			dst = binary.AppendUvarint(dst, uint64(n.Field))
			dst = binary.LittleEndian.AppendUint64(dst, n.Value)
		}
	}
	return dst
}

func appendTerm(dst []byte, t Term) []byte {
	freq := max(t.Freq, 1)
	if len(t.Text) < longSuffix && freq <= maxShortFreq {
		return append(append(dst, byte(len(t.Text))<<2|byte(freq)<<6), t.Text...)
	}
	short := min(len(t.Text), longSuffix)
	head := byte(short) << 2
	if freq <= maxShortFreq {
		head |= byte(freq) << 6
	}
	dst = append(dst, head)
	if short == longSuffix {
		dst = binary.AppendUvarint(dst, uint64(len(t.Text)-longSuffix))
	}
	dst = append(dst, t.Text...)
	if freq > maxShortFreq {
		dst = binary.AppendUvarint(dst, uint64(freq))
	}
	return dst
}

// DecodeDoc reads what AppendDoc wrote, and returns what follows it. The document
// shares no memory with b. Anything else than a record is ErrCorrupt. What AppendDoc
// writes of a document that was read is the record again, if it was none whose terms
// are sorted.
func DecodeDoc(b []byte) (Doc, []byte, error) {
	r := recordReader{rest: b}
	version := r.byte()
	if r.err == nil && (version < sortedVersion || version > numberedVersion) {
		r.fail("version %d is not known", version)
	}
	d := Doc{Numbered: version == numberedVersion || version == sortedNumberedVersion}
	r.sorted = version < recordVersion
	d.Length = uint32(r.uvarint("length", MaxLength+1))
	d.Terms = r.terms()
	d.Values = r.values()
	if d.Numbered {
		d.Numbers = r.numbers()
	}
	if r.err != nil {
		return Doc{}, nil, r.err
	}
	return d, r.rest, nil
}

// recordReader reads a record and keeps the first error.
type recordReader struct {
	rest   []byte
	sorted bool // the terms ascend
	err    error
}

func (r *recordReader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf("%w: %s", ErrCorrupt, fmt.Sprintf(format, args...))
		r.rest = nil
	}
}

func (r *recordReader) byte() byte {
	if len(r.rest) == 0 {
		r.fail("it ends early")
		return 0
	}
	c := r.rest[0]
	r.rest = r.rest[1:]
	return c
}

// uvarint reads a number of at most limit, in its shortest form only, so that a
// record has one encoding.
func (r *recordReader) uvarint(what string, limit uint64) uint64 {
	v, n := binary.Uvarint(r.rest)
	switch {
	case n <= 0:
		r.fail("the %s is cut off", what)
	case n > 1 && r.rest[n-1] == 0:
		r.fail("the %s has a leading zero", what)
	case v > limit:
		r.fail("the %s is %d, at most %d is possible", what, v, limit)
	default:
		r.rest = r.rest[n:]
		return v
	}
	return 0
}

func (r *recordReader) bytes(n int, what string) []byte {
	if n > len(r.rest) {
		r.fail("the %s is cut off", what)
		return nil
	}
	b := r.rest[:n]
	r.rest = r.rest[n:]
	return b
}

// terms decodes all texts into one string, of which the terms are parts: a record
// has dozens of terms, and opening a database reads tens of thousands of records.
func (r *recordReader) terms() []Term {
	count := int(r.uvarint("number of terms", MaxDocTerms))
	if count == 0 {
		return nil
	}
	if count > len(r.rest) { // each takes a byte at least
		r.fail("%d terms do not fit", count)
		return nil
	}
	terms := make([]Term, count)
	ends := make([]int, count)
	var text []byte
	start := 0 // of the term before
	for i := range terms {
		from := len(text)
		var freq uint32
		text, freq = r.term(text, start)
		if r.err != nil {
			return nil
		}
		if r.sorted && i > 0 && string(text[start:from]) >= string(text[from:]) {
			r.fail("term %d is out of order", i)
			return nil
		}
		terms[i].Freq, ends[i], start = freq, len(text), from
	}
	all, from := string(text), 0
	for i, end := range ends {
		terms[i].Text, from = all[from:end], end
	}
	return terms
}

// term appends a term's text to text, whose last term begins at prev.
func (r *recordReader) term(text []byte, prev int) ([]byte, uint32) {
	from := len(text)
	head := r.byte()
	shared, suffix := int(head&maxShared), int(head>>2&longSuffix)
	if suffix == longSuffix {
		suffix += int(r.uvarint("length of a term", MaxTermBytes))
	}
	if shared > from-prev || shared+suffix > MaxTermBytes {
		r.fail("a term of %d bytes shares %d with one of %d", shared+suffix, shared, from-prev)
		return text, 0
	}
	if !r.sorted && shared > 0 {
		r.fail("a term shares %d bytes with the one before it", shared)
		return text, 0
	}
	rest := r.bytes(suffix, "text of a term")
	if r.sorted && shared < maxShared && len(rest) > 0 && shared < from-prev && text[prev+shared] == rest[0] {
		r.fail("a term shares more than it says")
		return text, 0
	}
	text = append(text, text[prev:prev+shared]...)
	text = append(text, rest...)
	freq := uint32(head >> 6)
	if freq == 0 {
		freq = uint32(r.uvarint("frequency", MaxLength+1))
		if freq <= maxShortFreq {
			r.fail("the frequency %d is stored at length", freq)
		}
	}
	return text, freq
}

func (r *recordReader) values() []Value {
	count := int(r.uvarint("number of values", MaxDocValues))
	if count == 0 {
		return nil
	}
	if 2*count > len(r.rest) { // field and length take a byte each
		r.fail("%d values do not fit", count)
		return nil
	}
	values := make([]Value, 0, count)
	for range count {
		field := r.uvarint("field", 1<<16-1)
		n := r.uvarint("length of a value", MaxTermBytes)
		values = append(values, Value{Field: uint16(field), Key: string(r.bytes(int(n), "value"))})
	}
	return values
}

func (r *recordReader) numbers() []Number {
	const least = 9 // bytes of one
	count := int(r.uvarint("number of numbers", MaxDocNumbers))
	if count == 0 {
		return nil
	}
	if least*count > len(r.rest) {
		r.fail("%d numbers do not fit", count)
		return nil
	}
	numbers := make([]Number, 0, count)
	for range count {
		field := r.uvarint("field", 1<<16-1)
		if b := r.bytes(8, "number"); r.err == nil {
			numbers = append(numbers, Number{Field: uint16(field), Value: binary.LittleEndian.Uint64(b)})
		}
	}
	return numbers
}

// check says what is wrong with a document.
func (d *Doc) check() error {
	if len(d.Terms) > MaxDocTerms || len(d.Values) > MaxDocValues || len(d.Numbers) > MaxDocNumbers {
		return fmt.Errorf("%w: a document of %d terms, %d values and %d numbers; at most %d, %d and %d are possible",
			ErrInvalid, len(d.Terms), len(d.Values), len(d.Numbers), MaxDocTerms, MaxDocValues, MaxDocNumbers)
	}
	if len(d.Numbers) > 0 && !d.Numbered {
		return fmt.Errorf("%w: a document with %d numbers that are not said to be all", ErrInvalid, len(d.Numbers))
	}
	for _, t := range d.Terms {
		switch {
		case len(t.Text) > MaxTermBytes:
			return fmt.Errorf("%w: a term of %d bytes; at most %d are possible", ErrInvalid, len(t.Text), MaxTermBytes)
		case t.Freq == 0:
			return fmt.Errorf("%w: term %q has the frequency 0", ErrInvalid, t.Text)
		}
	}
	for _, v := range d.Values {
		if len(v.Key) > MaxTermBytes {
			return fmt.Errorf("%w: a filter value of %d bytes; at most %d are possible", ErrInvalid, len(v.Key), MaxTermBytes)
		}
	}
	return nil
}
