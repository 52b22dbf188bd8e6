-- Gives up the revision that is rolled out, and returns the clusters to the current one.
-- The controller follows a value once, so each one ends with the resource version.
obj.metadata.annotations = obj.metadata.annotations or {}
obj.metadata.annotations["propagation.karmada-direct.io/rollout-abort"] = obj.status.rollout.updateRevision .. "/" .. obj.metadata.resourceVersion
return obj
