-- Tries the failed revision again. The controller follows a value once, so each one ends
-- with the resource version.
obj.metadata.annotations = obj.metadata.annotations or {}
obj.metadata.annotations["propagation.karmada-direct.io/rollout-retry"] = obj.status.rollout.updateRevision .. "/" .. obj.metadata.resourceVersion
return obj
