-- Changes travel again, those that have waited first.
obj.spec.suspension = nil
return obj
