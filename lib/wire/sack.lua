-- SPDX-License-Identifier: BSD-3-Clause
-- Selective acknowledgements of RC for Wireshark: decodes what SACK.md in this folder defines. BTH
-- and the rest of RoCEv2 stay with Wireshark's own dissector, which does not know opcode 0xC0.
--
--   weft_write_bw -d roce+udp:lo,fault.loss=0.01,pcap=run.pcap ...
--   tshark -X lua_script:lib/wire/sack.lua -r run.pcap -Y weft_sack
--
-- A frame that does not fit its headers gets the expert item weft_sack.malformed.
local sack = Proto("weft_sack", "Weft selective acknowledgement")

local kUdpPort, kOpcode, kIcrc = 4791, 0xC0, 4
local kHeaders = 12 + 4 + 8  -- BTH, AETH, SACK

local f = {
  psn = ProtoField.uint24("weft_sack.psn", "Acknowledged PSN"),
  destination = ProtoField.uint24("weft_sack.destination", "Destination queue pair", base.HEX),
  syndrome = ProtoField.uint8("weft_sack.syndrome", "AETH syndrome", base.HEX),
  msn = ProtoField.uint24("weft_sack.msn", "MSN"),
  expected = ProtoField.uint24("weft_sack.expected", "First missing PSN"),
  lost_end = ProtoField.uint24("weft_sack.lost_end", "Lost before PSN"),
  held = ProtoField.uint24("weft_sack.held", "PSN that is held"),
  count = ProtoField.uint32("weft_sack.held_count", "PSNs that are held"),
}
sack.fields = {}
for _, field in pairs(f) do table.insert(sack.fields, field) end

local malformed = ProtoExpert.new("weft_sack.malformed", "Does not fit its headers",
                                  expert.group.MALFORMED, expert.severity.ERROR)
sack.experts = { malformed }

local udp_port = Field.new("udp.dstport")
local udp_payload = Field.new("udp.payload")

-- Runs behind Wireshark's dissectors, over the bytes of the UDP datagram.
function sack.dissector(buffer, _, tree)
  local port, payload = udp_port(), udp_payload()
  if port == nil or payload == nil or port.value ~= kUdpPort then return end
  local bytes = payload.range
  if bytes:len() < 1 or bytes(0, 1):uint() ~= kOpcode then return end
  local at = tree:add(sack, bytes)
  if bytes:len() < kHeaders + kIcrc then
    at:add_proto_expert_info(malformed)
    return
  end
  at:add(f.destination, bytes(5, 3))
  at:add(f.psn, bytes(9, 3))
  at:add(f.syndrome, bytes(12, 1))
  at:add(f.msn, bytes(13, 3))
  at:add(f.expected, bytes(17, 3))
  at:add(f.lost_end, bytes(21, 3))
  local expected, count = bytes(17, 3):uint(), 0
  local pad = bit.rshift(bit.band(bytes(1, 1):uint(), 0x30), 4)
  local length = bytes:len() - kHeaders - kIcrc - pad
  if length < 0 then
    at:add_proto_expert_info(malformed)
    return
  end
  for i = 0, length - 1 do
    local byte = bytes(kHeaders + i, 1)
    for b = 0, 7 do
      if bit.band(byte:uint(), bit.lshift(1, b)) ~= 0 then
        at:add(f.held, byte, (expected + 8 * i + b) % 0x1000000)
        count = count + 1
      end
    end
  end
  at:add(f.count, count):set_generated()
end

register_postdissector(sack)
