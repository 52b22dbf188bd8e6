-- Holds back all changes for all clusters.
obj.spec.suspension = {dispatching = true}
return obj
