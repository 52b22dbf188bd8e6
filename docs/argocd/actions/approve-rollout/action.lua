-- Approves the stage that the rollout has reached, for the revision that is rolled out.
-- The controller follows a value once, so each one ends with the resource version.
obj.metadata.annotations = obj.metadata.annotations or {}
obj.metadata.annotations["propagation.karmada-direct.io/rollout-approve"] = obj.status.rollout.stage .. "@" .. obj.status.rollout.updateRevision .. "/" .. obj.metadata.resourceVersion
return obj
