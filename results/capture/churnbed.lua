-- A Wireshark dissector for the frames of churnbed's nodes (package node/wire).
--   wireshark -X lua_script:churnbed.lua node-3.pcapng
--   tshark -X lua_script:churnbed.lua -r node-3.pcapng -Y 'churnbed.kind == "OK"'
local churnbed = Proto("churnbed", "Churnbed node")

local kinds = {
  -- KINDS
}
local classes = { [0] = "ack", [1] = "membership", [2] = "mutex", [3] = "probe", [4] = "group" }

local f = {
  version = ProtoField.uint8("churnbed.version", "Version"),
  class = ProtoField.uint8("churnbed.class", "Class", base.DEC, classes, 0x07),
  reliable = ProtoField.bool("churnbed.reliable", "Reliable", 8, nil, 0x08),
  reply = ProtoField.bool("churnbed.reply", "Reply", 8, nil, 0x10),
  has_ack = ProtoField.bool("churnbed.has_ack", "Has acknowledgement", 8, nil, 0x20),
  has_message = ProtoField.bool("churnbed.has_message", "Has message", 8, nil, 0x40),
  again = ProtoField.bool("churnbed.again", "Again", 8, nil, 0x80),
  from = ProtoField.uint32("churnbed.from", "From node"),
  inc = ProtoField.uint32("churnbed.inc", "Incarnation"),
  to = ProtoField.uint32("churnbed.to", "To node"),
  seq = ProtoField.uint64("churnbed.seq", "Sequence number"),
  ack_inc = ProtoField.uint32("churnbed.ack_inc", "Acknowledged incarnation"),
  ack = ProtoField.uint64("churnbed.ack", "Acknowledged sequence number"),
  kind = ProtoField.string("churnbed.kind", "Kind"),
  request = ProtoField.string("churnbed.request", "Request"),
  payload = ProtoField.bytes("churnbed.payload", "Payload"),
}
churnbed.fields = f
local malformed = ProtoExpert.new("churnbed.malformed", "Malformed frame", expert.group.MALFORMED, expert.severity.ERROR)
churnbed.experts = { malformed }

-- Kinds whose payload begins with the id of a request.
local of_request = {
  REQUEST = true, OK = true, RELEASE = true, INQUIRE = true, RELINQUISH = true, FAILED = true,
}

-- uvarint reads an unsigned LEB128 integer: its value and the bytes it takes,
-- or nothing where the frame ends before it does.
local function uvarint(tvb, at)
  local value, factor = UInt64(0), UInt64(1)
  for i = 0, 9 do
    if at + i >= tvb:len() then return nil end
    local b = tvb(at + i, 1):uint()
    value = value + UInt64(b % 128) * factor
    if b < 128 then return value, i + 1 end
    factor = factor * UInt64(128)
  end
  return nil
end

function churnbed.dissector(tvb, pinfo, root)
  if tvb:len() < 5 or tvb(0, 1):uint() ~= 1 then return 0 end
  pinfo.cols.protocol = "CHURNBED"
  local tree = root:add(churnbed, tvb())
  tree:add(f.version, tvb(0, 1))
  local flags = tvb(1, 1):uint()
  for _, name in ipairs({ "class", "reliable", "reply", "has_ack", "has_message", "again" }) do
    tree:add(f[name], tvb(1, 1))
  end
  local at = 2
  -- field reads the next integer; where one is missing the rest fails too.
  local function field(name, is64)
    if not at then return nil end
    local value, n = uvarint(tvb, at)
    if not value then at = nil return nil end
    local shown = value
    if not is64 then shown = value:tonumber() end
    if name then tree:add(f[name], tvb(at, n), shown) end
    at = at + n
    return value
  end
  local from = field("from")
  field("inc")
  local to = field("to")
  if flags % 16 >= 8 then field("seq", true) end
  if flags % 64 >= 32 then field("ack_inc") field("ack", true) end
  local what = "ack"
  if at and flags % 128 >= 64 then
    if at >= tvb:len() then
      at = nil
    else
      local kind = tvb(at, 1):uint()
      what = kinds[kind] or ("kind " .. kind)
      tree:add(f.kind, tvb(at, 1), what)
      at = at + 1
      local start = at
      if of_request[what] then
        local node, inc, ts = field(nil), field(nil), field(nil)
        if at then
          local id = tostring(node) .. "." .. tostring(inc) .. "." .. tostring(ts)
          tree:add(f.request, tvb(start, at - start), id)
          what = what .. " " .. id
        end
      end
      if at and at < tvb:len() then tree:add(f.payload, tvb(at)) end
    end
  end
  if not at then
    tree:add_proto_expert_info(malformed)
    what = what .. " (malformed)"
  end
  if flags >= 128 then what = what .. " again" end
  pinfo.cols.info = tostring(from) .. " > " .. tostring(to) .. "  " .. what
  return tvb:len()
end

DissectorTable.get("udp.port"):add(7077, churnbed)
