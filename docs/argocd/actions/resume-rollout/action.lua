-- Resumes a rollout that was paused with the action pause-rollout. The controller follows
-- a value once.
obj.metadata.annotations = obj.metadata.annotations or {}
obj.metadata.annotations["propagation.karmada-direct.io/rollout-resume"] = obj.metadata.resourceVersion
return obj
