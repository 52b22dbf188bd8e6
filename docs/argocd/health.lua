-- Health of DirectPropagation and ClusterDirectPropagation, for Argo CD.
--
-- Healthy only if every cluster has confirmed the current revision and reports it
-- healthy. Problems may be temporary, and Degraded ends a sync with waves. Therefore,
-- a problem is Progressing at first, and Degraded if it persists. If Karmada has lost
-- contact with a cluster, the object stays Progressing, because nothing indicates a
-- problem with the resource.
--
-- While a rollout is in progress, its deadlines and budgets decide what is a problem: the
-- object is Progressing, or Suspended if the rollout waits for a user, until the rollout
-- fails or ends.
local os = require("os")

-- For how many seconds a cluster may refuse the resource, or report it unhealthy,
-- before the object is Degraded. Rollouts take time.
local patience_refused = 60
local patience_unhealthy = 300

-- The time some seconds ago, in the format of Kubernetes; such times can be compared
-- as text. With a time as argument, os.date only supports local time.
local function ago(seconds)
  local to_utc = os.time(os.date("!*t")) - os.time()
  return os.date("%Y-%m-%dT%H:%M:%SZ", os.time() - seconds + to_utc)
end

local function condition(kind)
  for _, candidate in ipairs(obj.status.conditions or {}) do
    if candidate.type == kind and candidate.observedGeneration == obj.metadata.generation then
      return candidate
    end
  end
  return {}
end

-- Describes the clusters that are not healthy, and returns whether a problem has
-- persisted.
local function trouble()
  local lines, bad, lasting = {}, 0, false
  for _, row in ipairs(obj.status.clusters or {}) do
    -- A selected cluster with a taint does not get the resource, and need not.
    if row.reason ~= "ClusterTainted" and (row.applied ~= "True" or row.health ~= "Healthy") then
      bad = bad + 1
      if bad <= 5 then
        local line = row.name .. ": " .. row.reason
        if row.message ~= nil and row.message ~= "" then
          line = line .. ": " .. row.message
        end
        lines[#lines + 1] = line
      end
      local patience = nil
      if row.applied == "False" then
        patience = patience_refused
      elseif row.health == "Unhealthy" and row.applied == "True" then
        patience = patience_unhealthy
      end
      if patience ~= nil and row.lastTransitionTime ~= nil and row.lastTransitionTime < ago(patience) then
        lasting = true
      end
    end
  end
  local more = bad - #lines + (obj.status.omitted or 0)
  if more > 0 then
    lines[#lines + 1] = "and " .. more .. " more"
  end
  return table.concat(lines, "; "), lasting
end

local unseen = {status = "Progressing", message = "the controller has not seen the latest change yet"}
if obj.status == nil or obj.status.observedGeneration ~= obj.metadata.generation then
  return unseen
end

local stalled = condition("Stalled")
if stalled.status == "True" then
  return {status = "Degraded", message = stalled.reason .. ": " .. stalled.message}
end

local ready = condition("Ready")
local clusters, lasting = trouble()
if obj.metadata.deletionTimestamp ~= nil then
  return {status = "Progressing", message = "being withdrawn; " .. clusters}
end
local suspended = obj.spec.suspension ~= nil and obj.spec.suspension.dispatching
local rollout = obj.status.rollout or {}
if rollout.reason ~= nil and not suspended then
  local report, message = condition("Reconciling"), rollout.reason .. ": " .. rollout.progress
  if report.status == "True" then
    message = report.reason .. ": " .. report.message
  end
  if rollout.reason == "RolloutAwaitingApproval" or rollout.reason == "RolloutPaused" then
    return {status = "Suspended", message = message}
  end
  return {status = "Progressing", message = message}
end
if ready.status == "True" then
  return {status = "Healthy", message = ready.message}
end
if suspended then
  return {status = "Suspended", message = "changes are held back while propagation is suspended; " .. clusters}
end
if ready.status == nil then
  return unseen
end
if clusters == "" then
  clusters = ready.reason .. ": " .. ready.message
end
if lasting then
  return {status = "Degraded", message = clusters}
end
return {status = "Progressing", message = clusters}
