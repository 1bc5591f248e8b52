package cluster

import (
	"encoding/binary"
	"fmt"

	"github.com/google/uuid"
	"github.com/zeebo/xxh3"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
)

// A message of the log of a shard has a head of fixed size and a body. Numbers are big-endian:
//
//	0   magic, "memdbclu"
//	8   version of the message, 1
//	9   kind: an epoch, or batches
//	10  layout of the database (2 bytes)
//	12  part of a frame, from 0 on, and the number of its parts (4 and 4)
//	20  cluster, a UUID (16)
//	36  shard, and how many shards the cluster has (4 and 4)
//	44  epoch of the owner (8)
//	52  sum of the message before, 0 for the first of the log (8)
//	60  sum of this one: the xxh3 of all else (8)
//	68  body: of batches a part of a frame of package wal, of an epoch the name of the owner
const (
	messageMagic   = "memdbclu"
	messageVersion = 1
	messageHead    = 68
	messageSumAt   = 60

	kindEpoch   = 1
	kindBatches = 2

	// mostParts bounds the parts of a frame: of a transaction of the most bytes.
	mostParts = 1 << 16
)

// message is one message of a log.
type message struct {
	kind        byte
	layout      uint16
	part, parts uint32
	cluster     uuid.UUID
	shard       uint32
	shards      uint32
	epoch       uint64
	before, sum uint64
	body        []byte
}

// encode returns the bytes of the message, and gives it its sum.
func (m *message) encode() []byte {
	b := append(make([]byte, 0, messageHead+len(m.body)), messageMagic...)
	b = append(b, messageVersion, m.kind)
	b = binary.BigEndian.AppendUint16(b, m.layout)
	b = binary.BigEndian.AppendUint32(b, m.part)
	b = binary.BigEndian.AppendUint32(b, m.parts)
	b = append(b, m.cluster[:]...)
	b = binary.BigEndian.AppendUint32(b, m.shard)
	b = binary.BigEndian.AppendUint32(b, m.shards)
	b = binary.BigEndian.AppendUint64(b, m.epoch)
	b = binary.BigEndian.AppendUint64(b, m.before)
	m.sum = sumOf(b, m.body)
	b = binary.BigEndian.AppendUint64(b, m.sum)
	return append(b, m.body...)
}

func sumOf(head, body []byte) uint64 { return xxh3.HashSeed(body, xxh3.Hash(head[:messageSumAt])) }

const doingReadLog = "read the log of a shard"

// decodeMessage reads a message. It returns ErrCorrupt for one that is damaged or none of memdb, and
// ErrNewerLayout for one of a newer memdb.
func decodeMessage(b []byte) (*message, error) {
	bad := func(why string) error {
		return &fault.Error{Kind: fault.ErrCorrupt, What: doingReadLog, Why: why, Do: restoreShard}
	}
	if len(b) < messageHead || string(b[:8]) != messageMagic {
		return nil, bad("a message is none of memdb")
	}
	newer := &fault.Error{Kind: fault.ErrNewerLayout, What: doingReadLog, Do: "use a newer memdb on this machine"}
	if b[8] > messageVersion {
		newer.Why = fmt.Sprintf("a message has version %d, this memdb knows %d", b[8], messageVersion)
		return nil, newer
	}
	get := binary.BigEndian.Uint32
	m := &message{
		kind: b[9], layout: binary.BigEndian.Uint16(b[10:]), part: get(b[12:]), parts: get(b[16:]), cluster: uuid.UUID(b[20:36]),
		shard: get(b[36:]), shards: get(b[40:]), epoch: binary.BigEndian.Uint64(b[44:]), before: binary.BigEndian.Uint64(b[52:]),
		sum: binary.BigEndian.Uint64(b[messageSumAt:]), body: b[messageHead:],
	}
	if m.sum != sumOf(b, m.body) {
		return nil, bad("a message does not fit its checksum")
	}
	if int(m.layout) > engine.LayoutVersion {
		newer.Why = fmt.Sprintf("a message is of the layout %d, this memdb knows %d", m.layout, engine.LayoutVersion)
		return nil, newer
	}
	if m.kind != kindEpoch && m.kind != kindBatches || m.parts == 0 || m.parts > mostParts || m.part >= m.parts {
		return nil, bad("the head of a message cannot be")
	}
	return m, nil
}

// restoreShard is what helps where a log is damaged.
const restoreShard = "see which replicas of the stream are whole; else make a new cluster of backups or exports: memdbctl cluster import"
