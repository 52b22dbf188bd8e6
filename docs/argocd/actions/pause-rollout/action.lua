-- Starts nothing more, neither forward nor back. The controller follows a value once.
obj.metadata.annotations = obj.metadata.annotations or {}
obj.metadata.annotations["propagation.karmada-direct.io/rollout-pause"] = obj.metadata.resourceVersion
return obj
