-- One exchange between a process and the bucket that it shares. All numbers of
-- tokens are thousandths. KEYS[1] is a hash:
--   epoch    which bucket this is; another one after the key was lost
--   version  how many exchanges it has seen
--   level    the tokens in the pool
--   out      the tokens in the hands of processes, as far as they count
--   sweep    when the holders are looked through next
--   h:ID     what a process holds and until when that counts, as "tokens:time"
-- Nothing here but credit (reported once), back (its holder no longer has it) and
-- initial (a bucket that nobody knew) makes tokens. Time only takes: it drops
-- what comes too late, and it makes room for credit where a holder is gone.
local key, me = KEYS[1], 'h:' .. ARGV[1]
local known, seen, fresh = ARGV[2], tonumber(ARGV[3]), ARGV[4]
local capacity, initial = tonumber(ARGV[5]), tonumber(ARGV[6])
local ttl, hold, deadline = tonumber(ARGV[7]), tonumber(ARGV[8]), tonumber(ARGV[9])
local credit, back = tonumber(ARGV[10]), tonumber(ARGV[11])
local held, want = tonumber(ARGV[12]), tonumber(ARGV[13])

-- Redis 6 may be set to replicate the script instead of what it did, which does
-- not go with TIME. Later ones always replicate what it did.
if redis.replicate_commands then
  redis.replicate_commands()
end

local function text(n)
  return string.format('%.0f', n)
end

local function holding(value)
  local tokens, till = string.match(value or '', '^(%d+):(%d+)$')
  return tonumber(tokens) or 0, tonumber(till) or 0
end

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if deadline > 0 and now > deadline then
  return {'late', '', 0, 0, 0, now}
end

local s = redis.call('HMGET', key, 'epoch', 'version', 'level', 'out', 'sweep', me)
local epoch, version, level = s[1], tonumber(s[2]), tonumber(s[3])
local out, sweep, mine = tonumber(s[4]), tonumber(s[5]), holding(s[6])
local answer = 'ok'
-- A number that is too large to count on, or none, is not the script's either.
local counts = version and version >= 0 and version < 2^53
if not (epoch and counts and level and out and sweep) then
  -- A process that knew a bucket here does not begin a new one with tokens.
  level = 0
  if not epoch and known == '' then
    answer, level = 'made', initial
  else
    answer = 'lost'
  end
  redis.call('DEL', key)
  epoch, version, out, sweep, mine = fresh, 0, 0, now + hold, 0
elseif known ~= '' and known ~= '?' and (known ~= epoch or version < seen) then
  -- Redis went back to an older state, or the bucket is another one. Tokens that
  -- were handed out already may be in it again.
  answer, level, version = 'lost', 0, math.max(version, seen)
end

if now >= sweep or sweep > now + hold then
  -- A holder that was not heard of for so long makes room: credit may fill its
  -- place, but its tokens are gone. A time further ahead than any that can be is
  -- from before the clock went back.
  out = 0
  local all = redis.call('HGETALL', key)
  for i = 1, #all, 2 do
    if string.sub(all[i], 1, 2) == 'h:' and all[i] ~= me then
      local tokens, till = holding(all[i + 1])
      if till <= now then
        redis.call('HDEL', key, all[i])
      else
        out = out + tokens
        if till > now + hold then
          redis.call('HSET', key, all[i], text(tokens) .. ':' .. text(now + hold))
        end
      end
    end
  end
  sweep = now + math.floor(hold / 2)
else
  out = math.max(0, out - mine)
end

-- The pool and all hands together hold no more than the capacity. Of the pool,
-- nobody gets more than half or the last token, and only whole ones.
level = math.max(0, math.min(level + credit + back, capacity - out - held))
local grant = math.min(want, math.max(1, math.floor(level / 2000)) * 1000, math.floor(level / 1000) * 1000)
level, mine, version = level - grant, held + grant, version + 1

redis.call('HSET', key, 'epoch', epoch, 'version', text(version), 'level', text(level),
  'out', text(out + mine), 'sweep', text(sweep))
if mine > 0 then
  redis.call('HSET', key, me, text(mine) .. ':' .. text(now + hold))
else
  redis.call('HDEL', key, me)
end
redis.call('PEXPIRE', key, ttl)
return {answer, epoch, version, level, grant, now}
