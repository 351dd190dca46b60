-- SPDX-License-Identifier: BSD-3-Clause
-- SRD for Wireshark: decodes what SRD.md in this folder defines, byte by byte.
--
--   weft_write_bw -d srd+udp:lo,pcap=run.pcap ...
--   tshark -X lua_script:lib/wire/srd.lua -r run.pcap      (or Wireshark, with the same option)
--
-- A frame that does not fit its headers gets the expert item srd.malformed.
local srd = Proto("srd", "Weft SRD")

local opcodes = {
  [1] = "send", [2] = "write", [3] = "read_request", [4] = "read_response", [5] = "compare_swap",
  [6] = "fetch_add", [7] = "atomic_response", [8] = "write_add", [9] = "failure", [10] = "fill",
  [11] = "abort", [16] = "acknowledge", [17] = "refusal", [18] = "reset",
  [19] = "ready", [20] = "trimmed", [21] = "rails", [22] = "hello", [23] = "welcome",
  [24] = "key or liveness request", [25] = "key grant", [26] = "unknown association",
}
local reasons = {
  [0] = "none", [1] = "no receive", [2] = "busy", [3] = "no such queue pair", [4] = "access",
  [5] = "invalid", [6] = "longer than the receive", [7] = "memory is gone",
  [8] = "not the Q_Key",
}
local elements = { [0] = "int32", [1] = "int64", [2] = "fp32" }

local f = {
  opcode = ProtoField.uint8("srd.opcode", "Opcode", base.DEC, opcodes),
  version = ProtoField.uint8("srd.version", "Version", base.DEC, nil, 0xF0),
  pad = ProtoField.uint8("srd.pad", "Pad bytes", base.DEC, nil, 0x0C),
  flags = ProtoField.uint8("srd.flags", "Flags", base.HEX),
  ack_request = ProtoField.bool("srd.flags.ack_request", "Acknowledge at once", 8, nil, 0x80),
  solicited = ProtoField.bool("srd.flags.solicited", "Solicited", 8, nil, 0x40),
  retransmission = ProtoField.bool("srd.flags.retransmission", "Retransmission", 8, nil, 0x20),
  fragment = ProtoField.bool("srd.flags.fragment", "Fragment", 8, nil, 0x10),
  immediate_flag = ProtoField.bool("srd.flags.immediate", "Immediate", 8, nil, 0x08),
  credit_request_flag = ProtoField.bool("srd.flags.wish", "Credit request", 8, nil, 0x02),
  ordered_flag = ProtoField.bool("srd.flags.ordered", "Ordered", 8, nil, 0x01),
  protected = ProtoField.bool("srd.flags.protected", "Protected", 8, nil, 0x04),
  path = ProtoField.uint8("srd.path", "Path"),
  digest = ProtoField.uint8("srd.digest", "Digest of the fullest hop"),
  destination = ProtoField.uint24("srd.destination", "Destination", base.HEX),
  epoch = ProtoField.uint32("srd.epoch", "Epoch"),
  introduced = ProtoField.bool("srd.introduced", "Introduction", 8, nil, 0x01),
  incarnation = ProtoField.uint64("srd.incarnation", "Incarnation of the receiver", base.HEX),
  stamp = ProtoField.uint64("srd.stamp", "Stamp of the incarnation"),
  process = ProtoField.uint64("srd.process", "Process of the sender", base.HEX),
  first = ProtoField.uint64("srd.first", "First sequence of the stream"),
  reserved = ProtoField.uint16("srd.reserved", "Reserved"),
  hello_stamp = ProtoField.uint64("srd.hello.stamp", "Stamp of the hello"),
  hello_incarnation = ProtoField.uint64("srd.hello.incarnation", "Incarnation of the sender",
                                        base.HEX),
  hello_issued = ProtoField.uint64("srd.hello.issued", "Stamp of that incarnation"),
  path_sequence = ProtoField.uint16("srd.path_sequence", "Path sequence"),
  sequence = ProtoField.uint64("srd.sequence", "Sequence"),
  detail = ProtoField.uint8("srd.detail", "Detail"),
  reason = ProtoField.uint8("srd.reason", "Reason", base.DEC, reasons),
  element = ProtoField.uint8("srd.element", "Element", base.DEC, elements),
  source = ProtoField.uint24("srd.source", "Source", base.HEX),
  message = ProtoField.uint32("srd.message", "Message"),
  length = ProtoField.uint32("srd.message.length", "Length of the message"),
  offset = ProtoField.uint32("srd.message.offset", "Offset in the message"),
  address = ProtoField.uint64("srd.address", "Address", base.HEX),
  rkey = ProtoField.uint32("srd.rkey", "Key", base.HEX),
  immediate = ProtoField.uint64("srd.immediate", "Immediate data", base.HEX),
  requested_credit = ProtoField.uint32("srd.wish", "Requested credit in all, units of 256 B"),
  order = ProtoField.uint32("srd.order", "Number among ordered SENDs"),
  queue_key = ProtoField.uint32("srd.queue_key", "Q_Key", base.HEX),
  operand = ProtoField.uint64("srd.operand", "Compare or add", base.HEX),
  swap = ProtoField.uint64("srd.swap", "Swap", base.HEX),
  value = ProtoField.uint64("srd.value", "Value before", base.HEX),
  payload = ProtoField.bytes("srd.payload", "Payload"),
  association = ProtoField.uint64("srd.protected.association", "Association", base.HEX),
  counter = ProtoField.uint64("srd.protected.counter", "Counter"),
  nonce = ProtoField.bytes("srd.protected.nonce", "Nonce of the requester"),
  own_nonce = ProtoField.bytes("srd.protected.own_nonce", "Nonce of the granter"),
  sealed = ProtoField.bytes("srd.protected.sealed", "Sealed"),
  tag = ProtoField.bytes("srd.protected.tag", "Tag"),
  trailer = ProtoField.uint32("srd.trailer", "Trailer (ICRC)", base.HEX),
  echoed_digest = ProtoField.uint8("srd.ack.digest", "Digest of the echoed packet"),
  echo = ProtoField.uint32("srd.ack.echo", "Echoed sequence, low half"),
  received = ProtoField.uint64("srd.ack.received", "Payload bytes executed"),
  delay = ProtoField.uint32("srd.ack.delay", "Delay in ns"),
  duplicates = ProtoField.uint16("srd.ack.duplicates", "Duplicates"),
  ecn = ProtoField.bool("srd.ack.ecn", "The echoed packet met ECN", 8, nil, 0x01),
  words = ProtoField.uint8("srd.ack.words", "Words of bitmap"),
  marks = ProtoField.uint16("srd.ack.marks", "Packets that met ECN"),
  granted = ProtoField.uint32("srd.ack.granted", "Granted credit in all, units of 256 B"),
  bitmap = ProtoField.uint64("srd.ack.bitmap", "Executed", base.HEX),
  primary = ProtoField.ipv6("srd.rails.primary", "Primary address"),
  challenge = ProtoField.uint32("srd.rails.challenge", "Challenge", base.HEX),
  rails_version = ProtoField.uint8("srd.rails.version", "Version of the body"),
  answers = ProtoField.uint8("srd.rails.answers", "Asks or answers", base.DEC,
                             { [0] = "asks", [1] = "answers" }),
  rails_count = ProtoField.uint8("srd.rails.count", "Further addresses"),
  rails_reserved = ProtoField.uint8("srd.rails.reserved", "Reserved"),
  rail = ProtoField.ipv6("srd.rails.address", "Further address"),
  liveness_nonce = ProtoField.uint64("srd.liveness.nonce", "Nonce of the request", base.HEX),
}
for _, field in pairs(f) do table.insert(srd.fields, field) end
local malformed = ProtoExpert.new("srd.malformed", "Not a valid SRD packet", expert.group.MALFORMED,
                                  expert.severity.ERROR)
srd.experts = { malformed }

local BASE, TRAILER, MOST_WORDS, MOST_RAILS = 32, 4, 16, 7
local TAG, NONCE, KEY_REQUEST, KEY_GRANT = 16, 16, 24, 25
local LIVENESS_REQUEST = 24  -- without the flag of protected packets

local function set(...)
  local members = {}
  for _, opcode in ipairs({ ... }) do members[opcode] = true end
  return members
end
local has_fragments = set(1, 2, 8)
local has_remote = set(2, 3, 5, 6, 8)
local has_payload = set(1, 2, 4, 8)
local has_operands = set(5, 6)
local gives_reason = set(9, 17)

-- Takes fields off the front of a packet; what does not fit before `limit` makes it malformed.
local function reader(buffer, tree, at, limit)
  local self = { at = at, ok = true }
  function self.take(field, size)
    if self.at + size > limit then
      self.ok = false
      return nil
    end
    local range = buffer(self.at, size)
    tree:add(field, range)
    self.at = self.at + size
    return range
  end
  return self
end

local function base_header(buffer, tree, opcode)
  tree:add(f.opcode, buffer(0, 1))
  tree:add(f.version, buffer(1, 1))
  tree:add(f.pad, buffer(1, 1))
  tree:add(f.introduced, buffer(1, 1))
  local flags = tree:add(f.flags, buffer(2, 1))
  for _, flag in ipairs({ f.ack_request, f.solicited, f.retransmission, f.fragment,
                          f.immediate_flag, f.protected, f.credit_request_flag,
                          f.ordered_flag }) do
    flags:add(flag, buffer(2, 1))
  end
  tree:add(f.path, buffer(3, 1))
  if opcode <= 11 or opcode == 20 then tree:add(f.digest, buffer(4, 1)) end
  tree:add(f.destination, buffer(5, 3))
  tree:add(f.epoch, buffer(8, 4))
  tree:add(f.incarnation, buffer(12, 8))
  tree:add(f.path_sequence, buffer(20, 2))
  tree:add(f.sequence, buffer(22, 6))
  if gives_reason[opcode] then
    tree:add(f.reason, buffer(28, 1))
  elseif opcode == 16 then
    tree:add(f.echoed_digest, buffer(28, 1))
  elseif opcode == 8 then
    tree:add(f.element, buffer(28, 1))
  else
    tree:add(f.detail, buffer(28, 1))
  end
  tree:add(f.source, buffer(29, 3))
end

local function acknowledgement(buffer, r)
  r.take(f.echo, 4)
  r.take(f.received, 6)
  r.take(f.delay, 4)
  r.take(f.duplicates, 2)
  r.take(f.ecn, 1)
  local words = r.take(f.words, 1)
  if words == nil or words:uint() > MOST_WORDS then
    r.ok = false
    return
  end
  r.take(f.marks, 2)
  r.take(f.granted, 4)
  for _ = 1, words:uint() do r.take(f.bitmap, 8) end
end

local function rails(r)
  r.take(f.primary, 16)
  r.take(f.challenge, 4)
  local version = r.take(f.rails_version, 1)
  local answers = r.take(f.answers, 1)
  local count = r.take(f.rails_count, 1)
  r.take(f.rails_reserved, 1)
  if not r.ok or version:uint() ~= 1 or answers:uint() > 1 or count:uint() > MOST_RAILS then
    r.ok = false
    return
  end
  for _ = 1, count:uint() do r.take(f.rail, 16) end
end

local function hello(r)
  r.take(f.hello_stamp, 8)
  r.take(f.process, 8)
  r.take(f.hello_incarnation, 8)
  r.take(f.hello_issued, 8)
end

local function sequenced(r, opcode, flags, introduced)
  if introduced then
    r.take(f.stamp, 8)
    r.take(f.process, 8)
    r.take(f.first, 6)
    r.take(f.reserved, 2)
  end
  local fragment = flags:bitfield(3, 1) == 1
  if has_fragments[opcode] then
    if fragment then r.take(f.message, 4) end
  elseif opcode ~= 10 then
    r.take(f.message, 4)
  end
  if fragment then
    r.take(f.length, 4)
    r.take(f.offset, 4)
  end
  if has_remote[opcode] then
    r.take(f.address, 8)
    r.take(f.rkey, 4)
  end
  local immediate = flags:bitfield(4, 1) == 1
  if immediate then r.take(f.immediate, 8) end
  if opcode == 1 or (opcode == 2 and immediate) then r.take(f.queue_key, 4) end
  if flags:bitfield(6, 1) == 1 then r.take(f.requested_credit, 4) end
  if flags:bitfield(7, 1) == 1 then r.take(f.order, 4) end
  if has_operands[opcode] then
    r.take(f.operand, 8)
    r.take(f.swap, 8)
  end
  if opcode == 7 then r.take(f.value, 8) end
end

-- What follows the base header of a protected packet: no trailer, and no pad in clear.
local function protected(buffer, tree, opcode, size)
  local r = reader(buffer, tree, BASE, size)
  if opcode == KEY_REQUEST or opcode == KEY_GRANT then
    r.take(f.nonce, NONCE)
    r.take(f.own_nonce, NONCE)
  else
    r.take(f.association, 8)
    r.take(f.counter, 8)
  end
  if r.ok and size - TAG > r.at then r.take(f.sealed, size - TAG - r.at) end
  r.take(f.tag, TAG)
  return r.ok
end

-- A base header alone, without trailer and flags, that asks whether the port has a process.
local function liveness_request(buffer, info, root)
  info.cols.protocol = "SRD"
  info.cols.info = string.format("liveness request -> 0x%06x", buffer(5, 3):uint())
  local tree = root:add(srd, buffer())
  tree:append_text(", liveness request")
  tree:add(f.opcode, buffer(0, 1))
  tree:add(f.version, buffer(1, 1))
  tree:add(f.destination, buffer(5, 3))
  tree:add(f.liveness_nonce, buffer(12, 8))
  if buffer(1, 1):bitfield(0, 4) ~= 2 then tree:add_proto_expert_info(malformed) end
end

function srd.dissector(buffer, info, root)
  local size = buffer:len()
  if size == BASE and buffer(0, 1):uint() == LIVENESS_REQUEST and buffer(2, 1):uint() == 0 then
    liveness_request(buffer, info, root)
    return size
  end
  if size < BASE + TRAILER then return 0 end
  info.cols.protocol = "SRD"
  local opcode = buffer(0, 1):uint()
  local tree = root:add(srd, buffer())
  base_header(buffer, tree, opcode)
  local name = opcodes[opcode] or ("opcode " .. opcode)
  tree:append_text(", " .. name .. ", sequence " .. tostring(buffer(22, 6):uint64()))
  info.cols.info = string.format("%s path %d sequence %s 0x%06x -> 0x%06x", name,
                                 buffer(3, 1):uint(), tostring(buffer(22, 6):uint64()),
                                 buffer(29, 3):uint(), buffer(5, 3):uint())
  local known = opcodes[opcode] ~= nil and buffer(1, 1):bitfield(0, 4) == 2
  if buffer(2, 1):bitfield(5, 1) == 1 then
    info.cols.info:append(" protected")
    if not (protected(buffer, tree, opcode, size) and known) then
      tree:add_proto_expert_info(malformed)
    end
    return size
  end
  local pad = buffer(1, 1):bitfield(4, 2)
  local limit = size - TRAILER - pad
  local r = reader(buffer, tree, BASE, limit)
  if opcode == 16 then
    acknowledgement(buffer, r)
  elseif opcode == 21 then
    rails(r)
  elseif opcode == 22 or opcode == 23 then
    hello(r)
  elseif opcode <= 11 then
    sequenced(r, opcode, buffer(2, 1), buffer(1, 1):bitfield(7, 1) == 1)
  end
  if r.ok and limit > r.at then
    if has_payload[opcode] then
      tree:add(f.payload, buffer(r.at, limit - r.at))
    else
      r.ok = false
    end
  end
  tree:add(f.trailer, buffer(size - TRAILER, TRAILER))
  if not (r.ok and known and opcode < KEY_REQUEST) then tree:add_proto_expert_info(malformed) end
  return size
end

DissectorTable.get("udp.port"):add(4795, srd)
