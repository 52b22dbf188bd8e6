-- No change travels to any cluster from now on.
obj.spec.suspension = {dispatching = true}
return obj
