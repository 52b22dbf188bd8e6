-- The actions of a DirectPropagation in Argo CD's user interface.
local suspended = obj.spec.suspension ~= nil and obj.spec.suspension.dispatching == true
local rollout = obj.status ~= nil and obj.status.rollout or {}
local phase, reason = rollout.phase, rollout.reason
local moving = phase == "Progressing" or phase == "RollingBack" or phase == "Reverting"
local failed = phase == "Failed" or phase == "RollingBack" or phase == "RolledBack" or phase == "StateLost"
-- An approval also ends a soak. A stage could be approved earlier, but nobody has seen it
-- ready by then.
local approvable = reason == "RolloutAwaitingApproval" or reason == "RolloutSoaking"
local abortable = phase == "Progressing" or phase == "Failed" and rollout.currentRevision ~= nil
return {
  ["suspend"] = {["disabled"] = suspended},
  ["resume"] = {["disabled"] = not suspended},
  ["approve-rollout"] = {["disabled"] = not approvable},
  ["pause-rollout"] = {["disabled"] = not moving or rollout.paused == true},
  ["resume-rollout"] = {["disabled"] = rollout.paused ~= true},
  ["abort-rollout"] = {["disabled"] = not abortable},
  ["retry-rollout"] = {["disabled"] = not failed},
}
