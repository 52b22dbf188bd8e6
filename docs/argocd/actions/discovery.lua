-- The actions of a DirectPropagation in Argo CD's user interface.
local suspended = obj.spec.suspension ~= nil and obj.spec.suspension.dispatching == true
return {
  ["suspend"] = {["disabled"] = suspended},
  ["resume"] = {["disabled"] = not suspended},
}
